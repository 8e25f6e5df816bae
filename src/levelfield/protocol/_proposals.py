"""Which hyperparameters the next trials try, given the trials before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levelfield.config import RANDOM_TRIALS
from levelfield.methods import Method
from levelfield.protocol._optimise import Observation, grid, suggest
from levelfield.protocol._resolve import first_point
from levelfield.protocol._resolved import Resolved
from levelfield.records import Trial
from levelfield.seeds import seed_for
from levelfield.space import Space, Value

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


@dataclass(frozen=True)
class Question:
    """What the next trials of a search are to try: all that decides it, so that any process can answer.

    Attributes:
        space: Of the search.
        numbers: Of the trials that are asked for.
        observed: The trials that have a score, or count with one.
        stand_in: What a trial that is under way counts for.
        running: The trials that are under way.
        first: What trial 0 tries, where that is given.
        sampler: The name of the sampler.
        seed: Of the search.
        threads: The bits of a Gaussian process depend on them.
    """

    space: Space
    numbers: tuple[int, ...]
    observed: tuple[Observation, ...]
    stand_in: float
    running: tuple[Point, ...]
    first: Point | None
    sampler: str
    seed: int
    threads: int

    @property
    def is_quick(self) -> bool:
        """Whether the answer takes no longer than asking another process for it."""
        return not self.space or self.sampler in ("random", "grid") or len(self.observed) < RANDOM_TRIALS


def question(
    resolved: Resolved,
    method: Method,
    numbers: Iterable[int],
    *,
    finished: Sequence[Trial],
    running: Sequence[Point] = (),
) -> Question:
    """What the trials ``numbers`` are to try, given the ``finished`` ones and those that are ``running``."""
    scores = [score for trial in finished if (score := _observed_score(trial, resolved.sign)) is not None]
    failure = score_of_failure(scores)
    return Question(
        space=method.space,
        numbers=tuple(numbers),
        observed=tuple(
            Observation(dict(trial.hyperparameters), failure if score is None else score)
            for trial in finished
            for score in (_observed_score(trial, resolved.sign),)
        ),
        stand_in=sum(scores) / len(scores) if scores else failure,
        running=tuple(running),
        first=first_point(resolved.experiment, method),
        sampler=resolved.experiment.search.sampler,
        seed=search_seed(resolved),
        threads=resolved.resources.threads,
    )


def answer(asked: Question) -> list[Point]:
    """Hyperparameters for the trials that are asked for; fewer where a grid, or an empty space, is used up.

    Trials that are under way, among them those proposed here, count with the mean score so far: so that
    trials of the same round do not all try the same.
    """
    points: list[Point] = []
    for number in asked.numbers:
        point = asked.first if number == 0 else None
        if point is None:
            under_way = (Observation(other, asked.stand_in) for other in (*asked.running, *points))
            point = suggest(
                asked.space,
                [*asked.observed, *under_way],
                sampler=asked.sampler,
                seed=asked.seed,
                number=number,
                threads=asked.threads,
            )
        if point is None:
            break
        points.append(point)
    return points


def propose(
    resolved: Resolved,
    method: Method,
    numbers: Iterable[int],
    *,
    finished: Sequence[Trial],
    running: Sequence[Point] = (),
) -> list[Point]:
    """Hyperparameters for the trials ``numbers``, found in this process."""
    return answer(question(resolved, method, numbers, finished=finished, running=running))


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
