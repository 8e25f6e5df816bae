"""Proposals: hyperparameters of the next trials, given the finished ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levelfield.config import RANDOM_TRIALS
from levelfield.core.seeds import seed_for
from levelfield.core.space import Space, Value
from levelfield.methods import Method
from levelfield.protocol.search._optimizer import Observation, grid_trials, suggest
from levelfield.protocol.spec._resolve import first_search_point
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import Trial

SearchPoint = dict[str, Value]  # one set of hyperparameters


def trial_budget(resolved: ResolvedExperiment, method: Method) -> int:
    """Return the number of trials of a method's search; a grid or an empty space may have fewer than set."""
    settings = resolved.experiment.search
    if not method.space:
        return 1
    if settings.sampler == "grid":
        first = first_search_point(resolved.experiment, method)
        return min(settings.trials, grid_trials(method.space, first))
    return settings.trials


def search_seed(resolved: ResolvedExperiment) -> int:
    """Return the seed of the search; all methods share it, and each repeat has its own."""
    return seed_for(resolved.experiment.seed, "search", *resolved.repeat_name)


@dataclass(frozen=True)
class ProposalRequest:
    """Request for the hyperparameters of the next trials; complete, so that any process can compute them.

    Attributes:
        space: Search space.
        numbers: Numbers of the requested trials.
        observed: Finished trials with their scores; failed trials have a substitute score.
        running_score: Score assumed for running trials.
        running: Hyperparameters of running trials.
        first: Hyperparameters of trial 0, if prescribed.
        sampler: Name of the sampler.
        seed: Seed of the search.
        threads: Number of threads; the bits of a Gaussian process depend on it.
    """

    space: Space
    numbers: tuple[int, ...]
    observed: tuple[Observation, ...]
    running_score: float
    running: tuple[SearchPoint, ...]
    first: SearchPoint | None
    sampler: str
    seed: int
    threads: int

    @property
    def is_quick(self) -> bool:
        """True if computing the proposals is faster than sending the request to a worker."""
        return not self.space or self.sampler in ("random", "grid") or len(self.observed) < RANDOM_TRIALS


def proposal_request(
    resolved: ResolvedExperiment,
    method: Method,
    numbers: Iterable[int],
    *,
    finished: Sequence[Trial],
    running: Sequence[SearchPoint] = (),
) -> ProposalRequest:
    """Return the request for the trials ``numbers``, given ``finished`` and ``running`` trials."""
    scores = [score for trial in finished if (score := _observed_score(trial, resolved.sign)) is not None]
    failure = score_of_failure(scores)
    return ProposalRequest(
        space=method.space,
        numbers=tuple(numbers),
        observed=tuple(
            Observation(dict(trial.hyperparameters), failure if score is None else score)
            for trial in finished
            for score in (_observed_score(trial, resolved.sign),)
        ),
        running_score=sum(scores) / len(scores) if scores else failure,
        running=tuple(running),
        first=first_search_point(resolved.experiment, method),
        sampler=resolved.experiment.search.sampler,
        seed=search_seed(resolved),
        threads=resolved.resources.threads,
    )


def compute_proposals(request: ProposalRequest) -> list[SearchPoint]:
    """Return the hyperparameters of the requested trials; fewer if a grid or an empty space is used up.

    Running trials and those proposed here count with the mean score so far, so that the trials of one round
    differ.
    """
    points: list[SearchPoint] = []
    for number in request.numbers:
        point = request.first if number == 0 else None
        if point is None:
            under_way = (Observation(other, request.running_score) for other in (*request.running, *points))
            point = suggest(
                request.space,
                [*request.observed, *under_way],
                sampler=request.sampler,
                seed=request.seed,
                number=number,
                threads=request.threads,
                first=request.first,
            )
        if point is None:
            break
        points.append(point)
    return points


def propose(
    resolved: ResolvedExperiment,
    method: Method,
    numbers: Iterable[int],
    *,
    finished: Sequence[Trial],
    running: Sequence[SearchPoint] = (),
) -> list[SearchPoint]:
    """Return the hyperparameters of the trials ``numbers``, computed in this process."""
    return compute_proposals(proposal_request(resolved, method, numbers, finished=finished, running=running))


def score_of_failure(scores: Sequence[float]) -> float:
    """Return the score that a failed trial counts with: somewhat worse than the worst finished trial.

    A much worse score would hide the differences between the other trials from the optimizer.

    Example:
        >>> score_of_failure([0.2, 0.4]), score_of_failure([])
        (0.1, 0.0)
    """
    if not scores:
        return 0.0
    worst, best = min(scores), max(scores)
    return worst - max((best - worst) / 2, abs(worst) / 10, 1e-6)


def _observed_score(trial: Trial, sign: int) -> float | None:
    """Return the score (or the estimate of a pruned trial), signed so that higher is better."""
    score = trial.estimate if trial.score is None else trial.score
    return None if score is None else sign * score
