"""The search: trials of one method, each one run per fold, scored by the mean validation metric."""

from __future__ import annotations

from collections.abc import Callable

from levelfield.engine import Runner
from levelfield.methods import Method
from levelfield.protocol._proposals import Point, propose
from levelfield.protocol._resolve import Resolved, first_point, method_source
from levelfield.protocol._shared import run_shared_search
from levelfield.protocol._trials import run_trials
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


def run_search(
    resolved: Resolved, method: Method, store: Store, engine: Runner, *, on_run: Callable[[], None]
) -> list[Trial]:
    """Finish the search of one method; trials that are on record are not run again.

    Trials go in rounds of ``search.parallel``. What a round tries depends on the rounds before only, so the
    outcome is the same however often the search is interrupted.
    """
    search = search_of(resolved, method)
    identity = search.search_id
    store.write_search(search)
    if resolved.experiment.search.storage is not None:
        return run_shared_search(resolved, method, store, engine, search=identity, on_run=on_run)
    trials = store.trials(identity)
    while wanted := next_round(resolved, method, trials):
        earlier = trials[: _round_start(resolved, trials)]
        for trial in run_trials(resolved, method, store, engine, wanted, earlier=earlier, on_run=on_run):
            store.write_trial(identity, trial)
            trials.append(trial)
    return trials[: resolved.experiment.search.trials]


def next_round(resolved: Resolved, method: Method, trials: list[Trial]) -> list[tuple[int, Point]]:
    """The trials to do next, or the rest of a round that was interrupted; none when the search is done."""
    settings = resolved.experiment.search
    if len(trials) >= settings.trials:
        return []
    start = _round_start(resolved, trials)
    points = propose(resolved, method, range(start, start + settings.parallel), finished=trials[:start])
    return [
        (number, point)
        for number, point in enumerate(points, start)
        if len(trials) <= number < settings.trials
    ]


def _round_start(resolved: Resolved, trials: list[Trial]) -> int:
    return len(trials) - len(trials) % resolved.experiment.search.parallel
