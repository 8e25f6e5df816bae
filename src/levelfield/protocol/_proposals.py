"""Which hyperparameters the next trials try, given the trials before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levelfield.methods import Method
from levelfield.protocol._optimise import Observation, grid, suggest
from levelfield.protocol._resolve import Resolved, first_point
from levelfield.records import Trial
from levelfield.seeds import seed_for
from levelfield.space import Value

Point = dict[str, Value]


def budget(resolved: Resolved, method: Method) -> int:
    """How many trials the method's search has in the end: a grid or an empty space may have fewer."""
    settings = resolved.experiment.search
    if not method.space:
        return 1
    if settings.sampler == "grid":
        return min(settings.trials, len(grid(method.space, seed=search_seed(resolved))))
    return settings.trials


def search_seed(resolved: Resolved) -> int:
    """The seed of the searches of all methods; a repeat has fresh ones."""
    return seed_for(resolved.experiment.seed, "search", *resolved.repeat_name)


def propose(
    resolved: Resolved,
    method: Method,
    numbers: Iterable[int],
    *,
    finished: Sequence[Trial],
    running: Sequence[Point] = (),
) -> list[Point]:
    """Hyperparameters for the trials ``numbers``.

    Trials that are under way, among them those proposed here, count with the mean score so far: so that
    trials of the same round do not all try the same.
    """
    observed = [
        Observation(dict(trial.hyperparameters), _observed_score(trial, resolved.sign)) for trial in finished
    ]
    scores = [seen.score for seen in observed if seen.score is not None]
    stand_in = sum(scores) / len(scores) if scores else None
    points: list[Point] = []
    for number in numbers:
        point = first_point(resolved.experiment, method) if number == 0 else None
        if point is None:
            point = suggest(
                method.space,
                [*observed, *(Observation(other, stand_in) for other in (*running, *points))],
                sampler=resolved.experiment.search.sampler,
                seed=search_seed(resolved),
                number=number,
            )
        if point is None:
            break  # the grid, or an empty space, is used up
        points.append(point)
    return points


def _observed_score(trial: Trial, sign: int) -> float | None:
    """The score of a trial, or of a pruned one its estimate, turned so that more is better."""
    score = trial.estimate if trial.score is None else trial.score
    return None if score is None else sign * score
