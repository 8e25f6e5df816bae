"""The next hyperparameters to try, as a pure function of the trials before.

Nothing but the finished trials and the seed decides what trial n tries: no state of an optimiser has to
survive a kill.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from levelfield.config import RANDOM_TRIALS
from levelfield.seeds import numpy_generator, seed_for
from levelfield.space import Choice, Dimension, Float, Int, Space, Value

GRID_LEVELS = 5  # of a real range that has no step of its own
LARGEST_GRID = 1_000_000  # points; nobody runs more, and listing them would take all memory
GP_MEMORY = 300  # trials that a Gaussian process is fitted to: its cost grows with their cube


@dataclass(frozen=True)
class Observation:
    """A trial as the optimiser sees it, also one that failed or is still under way."""

    hyperparameters: dict[str, Value]
    score: float


def suggest(
    space: Space,
    observed: Sequence[Observation],
    *,
    sampler: str,
    seed: int,
    number: int,
    threads: int = 1,
) -> dict[str, Value] | None:
    """Hyperparameters for trial ``number``; None when a grid is used up.

    Args:
        space: What is searched.
        observed: The trials before, with their scores.
        sampler: "gp", "tpe", "random" or "grid".
        seed: Of the search.
        number: Of the trial.
        threads: That the sums of a Gaussian process are split among.

    Example:
        >>> suggest({"margin": Float(0.0, 1.0, step=0.5)}, [], sampler="grid", seed=0, number=3) is None
        True
    """
    if not space:
        return {} if number == 0 else None
    if sampler == "grid":
        return _grid_point(space, seed=seed, number=number)
    match sampler:
        case "random":
            seen: Sequence[Observation] = []  # it asks nobody, and need not wait for a study
        case "gp":
            seen = remembered(observed, GP_MEMORY)
        case _:
            seen = observed
    with _threads(threads) if sampler == "gp" else nullcontext():
        return _optuna_point(space, seen, sampler=sampler, seed=seed_for(seed, "suggest", number))


def remembered(observed: Sequence[Observation], most: int) -> Sequence[Observation]:
    """At most so many trials: the latest, and as many again spread evenly over those before them.

    The latest stand where the search has led, or are still under way and must not be proposed again; the
    others keep the rest of the space from being forgotten. None is chosen by its score: the best of many
    noisy scores are the lucky ones, and a process fitted to those looks in the wrong place.

    Example:
        >>> trials = [Observation({}, score) for score in (0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]
        >>> [trial.score for trial in remembered(trials, 4)]
        [0.9, 0.4, 0.5, 0.6]
    """
    if len(observed) <= most:
        return observed
    latest = len(observed) - most // 2
    spread = np.linspace(0, latest - 1, most - most // 2).astype(int)
    return [observed[index] for index in spread] + list(observed[latest:])


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """So many threads of PyTorch, and as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def grid(space: Space, *, seed: int) -> list[dict[str, Value]]:
    """Every combination of the levels of each dimension, in a seeded order."""
    levels = [_levels(dimension) for dimension in space.values()]
    points = [dict(zip(space, values, strict=True)) for values in itertools.product(*levels)]
    order = numpy_generator(seed, "grid").permutation(len(points))
    return [points[index] for index in order]


def grid_size(space: Space) -> int:
    """How many points :func:`grid` has, counted without listing them.

    Example:
        >>> grid_size({"margin": Float(0.0, 1.0, step=0.5), "k": Int(1, 10**15)})
        3000000000000000
    """
    return math.prod(_level_count(dimension) for dimension in space.values())


def _level_count(dimension: Dimension) -> int:
    match dimension:
        case Choice(options=options):
            return len(options)
        case Int(low=low, high=high, step=step):
            return (high - low) // step + 1
        case Float(low=low, high=high, step=step):
            return GRID_LEVELS if step is None else int((high - low) / step + 1e-9) + 1


def _grid_point(space: Space, *, seed: int, number: int) -> dict[str, Value] | None:
    points = grid(space, seed=seed)
    return points[number] if number < len(points) else None


def _levels(dimension: Dimension) -> list[Value]:
    match dimension:
        case Choice(options=options):
            return list(options)
        case Int(low=low, high=high, step=step):
            return list(range(low, high + 1, step))
        case Float(low=low, high=high, step=step, log=log):
            if step is None:
                make = np.geomspace if log else np.linspace
                return [float(value) for value in make(low, high, GRID_LEVELS)]
            return [round(low + index * step, 12) for index in range(_level_count(dimension))]


def _optuna_point(
    space: Space, observed: Sequence[Observation], *, sampler: str, seed: int
) -> dict[str, Value]:
    complete = [(trial.hyperparameters, trial.score) for trial in observed]
    study = study_of(space, complete, sampler=_sampler(sampler, seed % 2**32))
    distributions = {name: distribution_of(dimension) for name, dimension in space.items()}
    asked = study.ask(fixed_distributions=distributions)
    return {name: asked.params[name] for name in space}


def study_of(space: Space, complete: Sequence[tuple[dict[str, Value], float]], *, sampler: Any = None) -> Any:
    """An Optuna study in memory that holds complete trials: hyperparameters and score."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {name: distribution_of(dimension) for name, dimension in space.items()}
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for hyperparameters, score in complete:
        inside = {name: hyperparameters[name] for name in space}
        trial = optuna.trial.create_trial(params=inside, distributions=distributions, value=score)
        study.add_trial(_unchanging(trial))
    return study


def _unchanging(trial: Any) -> Any:
    """A finished trial whose copies share its parts: nobody changes them, and copying them takes longest."""
    trial.__class__ = _unchanging_trial()
    return trial


@cache
def _unchanging_trial() -> Any:
    from optuna.trial import FrozenTrial

    class UnchangingTrial(FrozenTrial):
        def __deepcopy__(self, memo: dict[int, Any]) -> UnchangingTrial:
            return copy.copy(self)

    return UnchangingTrial


def _sampler(name: str, seed: int) -> Any:
    from optuna import samplers

    match name:
        case "gp":
            return samplers.GPSampler(
                seed=seed, deterministic_objective=False, n_startup_trials=RANDOM_TRIALS
            )
        case "tpe":
            return samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=RANDOM_TRIALS)
        case _:
            return samplers.RandomSampler(seed=seed)


def distribution_of(dimension: Dimension) -> Any:
    """A range as Optuna has it."""
    from optuna import distributions

    match dimension:
        case Choice(options=options):
            return distributions.CategoricalDistribution(options)
        case Int(low=low, high=high, log=log, step=step):
            return distributions.IntDistribution(low, high, log=log, step=1 if log else step)
        case Float(low=low, high=high, log=log):
            return distributions.FloatDistribution(low, high, log=log)
