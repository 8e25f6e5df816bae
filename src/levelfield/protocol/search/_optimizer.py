"""Hyperparameters of the next trial, as a pure function of the earlier trials and the seed.

The optimizer has no state of its own, so nothing is lost when a process is killed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.config import RANDOM_TRIALS
from levelfield.core.optuna import build_study, to_optuna_distribution
from levelfield.core.seeds import numpy_generator, seed_for
from levelfield.core.space import Choice, Dimension, Float, Int, Space, Value

GRID_LEVELS = 5  # levels of a float range without a step
LARGEST_GRID = 1_000_000  # points; the most trials that a search may have
GP_MEMORY = 300  # largest number of trials that a Gaussian process is fitted to; its cost is cubic


@dataclass(frozen=True)
class Observation:
    """A trial as the optimizer sees it; failed and running trials have substitute scores."""

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
    first: Mapping[str, Value] | None = None,
) -> dict[str, Value] | None:
    """Return the hyperparameters of trial ``number``; None when a grid is used up.

    Args:
        space: Search space.
        observed: Earlier trials with their scores; higher is better.
        sampler: "gp", "tpe", "random" or "grid".
        seed: Seed of the search.
        number: Number of the trial.
        threads: Number of PyTorch threads for a Gaussian process.
        first: Hyperparameters of trial 0, if they are not the sampler's; a grid does not repeat them.

    Example:
        >>> suggest({"margin": Float(0.0, 1.0, step=0.5)}, [], sampler="grid", seed=0, number=3) is None
        True
    """
    if not space:
        return {} if number == 0 else None
    if sampler == "grid":
        return _grid_point(space, seed=seed, number=number, first=first)
    match sampler:
        case "random":
            seen: Sequence[Observation] = []  # random sampling ignores earlier trials
        case "gp":
            seen = limit_trials(observed, GP_MEMORY)
        case _:
            seen = observed
    with _threads(threads) if sampler == "gp" else nullcontext():
        return _optuna_point(space, seen, sampler=sampler, seed=seed_for(seed, "suggest", number))


def limit_trials(observed: Sequence[Observation], most: int) -> Sequence[Observation]:
    """Return at most ``most`` trials: the latest half, and as many spread evenly over the earlier ones.

    The latest trials show where the search is now, or are running and must not be proposed again. The others
    cover the rest of the space. Scores play no part in the choice: the best of many noisy scores are lucky,
    and a Gaussian process fitted to them searches in the wrong region.

    Example:
        >>> trials = [Observation({}, score) for score in (0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]
        >>> [trial.score for trial in limit_trials(trials, 4)]
        [0.9, 0.4, 0.5, 0.6]
    """
    if len(observed) <= most:
        return observed
    latest = len(observed) - most // 2
    spread = np.linspace(0, latest - 1, most - most // 2).astype(int)
    return [observed[index] for index in spread] + list(observed[latest:])


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the number of PyTorch threads inside the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def grid_size(space: Space) -> int:
    """Return the number of points of a grid: all combinations of the levels of all dimensions.

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


def grid_trials(space: Space, first: Mapping[str, Value] | None = None) -> int:
    """Return the number of trials that use up a grid; ``first`` adds one if it is not on the grid.

    Example:
        >>> space = {"margin": Float(0.0, 1.0, step=0.5)}
        >>> grid_trials(space), grid_trials(space, {"margin": 0.5}), grid_trials(space, {"margin": 0.1})
        (3, 3, 4)
    """
    outside = first is not None and _grid_index(space, first) is None
    return grid_size(space) + outside


def _grid_point(
    space: Space, *, seed: int, number: int, first: Mapping[str, Value] | None
) -> dict[str, Value] | None:
    """Return the point of trial ``number``: the grid in a seeded order, each point once.

    If trial 0 is ``first``, it takes the place of the point that begins the order. That point is tried where
    ``first`` would have been, or at the end.
    """
    order = numpy_generator(seed, "grid").permutation(grid_size(space))
    if first is not None:
        given = _grid_index(space, first)
        order = np.append(order, order[0]) if given is None else np.where(order == given, order[0], order)
    if number >= len(order):
        return None
    point, rest = {}, int(order[number])
    for name, dimension in reversed(list(space.items())):
        levels = _levels(dimension)
        rest, index = divmod(rest, len(levels))
        point[name] = levels[index]
    return {name: point[name] for name in space}


def _grid_index(space: Space, point: Mapping[str, Value]) -> int | None:
    """Return the number of a point in the grid, the last dimension fastest; None if it is not on the grid."""
    number = 0
    for name, dimension in space.items():
        levels = _levels(dimension)
        if point.get(name) not in levels:
            return None
        number = number * len(levels) + levels.index(point[name])
    return number


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
    study = build_study(space, complete, sampler=_sampler(sampler, seed % 2**32))
    distributions = {name: to_optuna_distribution(dimension) for name, dimension in space.items()}
    asked = study.ask(fixed_distributions=distributions)
    return {name: asked.params[name] for name in space}


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
