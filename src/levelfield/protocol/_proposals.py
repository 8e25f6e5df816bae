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
    scores = [score for trial in finished if (score := _observed_score(trial, resolved.sign)) is not None]
    failure = score_of_failure(scores)
    observed = [
        Observation(dict(trial.hyperparameters), failure if score is None else score)
        for trial in finished
        for score in (_observed_score(trial, resolved.sign),)
    ]
    stand_in = sum(scores) / len(scores) if scores else failure
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


def score_of_failure(scores: Sequence[float]) -> float:
    """What a failed trial counts for, so that the search stays away from there: worse than the worst.

    Not much worse: a model of the scores must still see the differences between the others.

    Example:
        >>> score_of_failure([0.2, 0.4]), score_of_failure([])
        (0.1, 0.0)
    """
    if not scores:
        return 0.0
    worst, best = min(scores), max(scores)
    return worst - max((best - worst) / 2, abs(worst) / 10, 1e-6)


def _observed_score(trial: Trial, sign: int) -> float | None:
    """The score of a trial, or of a pruned one its estimate, turned so that more is better."""
    score = trial.estimate if trial.score is None else trial.score
    return None if score is None else sign * score
