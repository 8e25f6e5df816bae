"""The search: trials of one method, each one run per fold, scored by the mean validation metric."""

from __future__ import annotations

from levelfield.methods import Method
from levelfield.protocol._flow import Flow, Job, Jobs, Together
from levelfield.protocol._progress import Board
from levelfield.protocol._proposals import Point, Question, answer, budget, question
from levelfield.protocol._resolve import first_point
from levelfield.protocol._resolved import Resolved, method_source
from levelfield.protocol._shared import shared_search
from levelfield.protocol._trials import trial_flow
from levelfield.records import Search, Store, Trial, space_record


def search_of(resolved: Resolved, method: Method) -> Search:
    """What the trials of a method's search depend on."""
    settings = resolved.experiment.search
    return Search(
        run=resolved.run_spec(method, {}, fold=0, seed=resolved.experiment.seed),
        space=space_record(method.space),
        sampler=settings.sampler,
        first=settings.first,
        first_point=first_point(resolved.experiment, method),
        parallel=settings.parallel,
        prune=settings.prune,
        method_source=method_source(method),
        repeat=resolved.repeat,
    )


def search_id(resolved: Resolved, method: Method) -> str:
    """What names a search; see :class:`levelfield.records.Search`."""
    return search_of(resolved, method).search_id


def search_flow(
    resolved: Resolved, method: Method, store: Store, board: Board, *, row: str
) -> Flow[list[Trial]]:
    """Finish the search of one method; trials that are on record are not run again.

    Trials go in rounds of ``search.parallel``. What a round tries depends on the rounds before only, so the
    outcome is the same however often the search is interrupted.
    """
    search = search_of(resolved, method)
    identity = search.search_id
    store.write_search(search)
    settings = resolved.experiment.search
    if settings.storage is not None:
        return (yield from shared_search(resolved, method, store, board, search=identity, row=row))
    trials = store.trials(identity)
    for trial in trials:
        board.trial(row, trial, sign=resolved.sign, before=True)
    while len(trials) < settings.trials:
        asked = _next_question(resolved, method, trials)
        rounds_left = (budget(resolved, method) - asked.numbers[0]) / settings.parallel
        if asked.is_quick:
            points = answer(asked)
        else:
            key = f"propose {identity} {asked.numbers[0]}"
            (points,) = yield Jobs([Job(key, answer, asked, row, "propose", urgency=rounds_left + 0.5)])
        wanted = _open_trials(resolved, asked, points, trials)
        if not wanted:
            break  # the grid, or an empty space, is used up
        earlier = trials[: asked.numbers[0]]
        flows = [
            trial_flow(resolved, method, store, number, point, earlier=earlier, row=row, urgency=rounds_left)
            for number, point in wanted
        ]
        for trial in (yield Together(flows)):
            store.write_trial(identity, trial)
            trials.append(trial)
            board.trial(row, trial, sign=resolved.sign)
    return trials[: settings.trials]


def next_round(resolved: Resolved, method: Method, trials: list[Trial]) -> list[tuple[int, Point]]:
    """The trials to do next, or the rest of a round that was interrupted; none when the search is done."""
    if len(trials) >= resolved.experiment.search.trials:
        return []
    asked = _next_question(resolved, method, trials)
    return _open_trials(resolved, asked, answer(asked), trials)


def _next_question(resolved: Resolved, method: Method, trials: list[Trial]) -> Question:
    """What the whole round tries that the next trial belongs to: it depends on the rounds before."""
    parallel = resolved.experiment.search.parallel
    start = len(trials) - len(trials) % parallel
    return question(resolved, method, range(start, start + parallel), finished=trials[:start])


def _open_trials(
    resolved: Resolved, asked: Question, points: list[Point], trials: list[Trial]
) -> list[tuple[int, Point]]:
    """The trials of a round that are not on record yet."""
    return [
        (number, point)
        for number, point in zip(asked.numbers, points, strict=False)
        if len(trials) <= number < resolved.experiment.search.trials
    ]
