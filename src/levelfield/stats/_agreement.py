"""Agreement of two orders of the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.core.errors import UsageError

Array = NDArray[np.float64]
RESAMPLES = 2000

MIN_METHODS_FOR_INTERVAL = 8  # with fewer, many resamples contain only two or three different methods


@dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b between two orders of the same methods.

    Attributes:
        tau: 1 for the same order, 0 for unrelated orders, -1 for the reverse order.
        low: Lower end of its 95% interval over methods of this kind.
        high: Upper end of the interval.
        methods: Number of methods in both orders.
    """

    tau: float
    low: float
    high: float
    methods: int

    def __str__(self) -> str:
        """Format for tables; the interval is left out for few methods, where it is unreliable."""
        if self.methods < MIN_METHODS_FOR_INTERVAL:
            return f"{self.tau:+.2f} (of {self.methods})"
        return f"{self.tau:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def rank_agreement(first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0) -> Agreement:
    """Return Kendall's tau-b between the orders that two sets of scores give their common methods.

    The interval is a percentile bootstrap over methods. It covers other methods of this kind, not other seeds
    or classes.

    Args:
        first: Scores by method.
        second: Scores by method, by another metric, on other data or from another paper.
        seed: Seed of the bootstrap.

    Example:
        >>> rank_agreement({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 30, "c": 20, "d": 5}).tau
        0.3333333333333333
    """
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 3:
        raise UsageError(f"only {len(shared)} methods are in both orders; compare at least 3")
    one = _signs(np.array([first[method] for method in shared], dtype=np.float64))
    other = _signs(np.array([second[method] for method in shared], dtype=np.float64))
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(shared), size=(RESAMPLES, len(shared)))
    taus = [_tau_b(one[np.ix_(rows, rows)], other[np.ix_(rows, rows)]) for rows in drawn]
    low, high = np.nanpercentile(taus, [2.5, 97.5])
    return Agreement(_tau_b(one, other), float(low), float(high), len(shared))


def _signs(scores: Array) -> Array:
    """Return the signs of all pairwise differences (n x n); 0 for ties."""
    signs: Array = np.sign(scores[:, None] - scores[None, :])
    return signs


def _tau_b(one: Array, other: Array) -> float:
    """Return Kendall's tau-b of two sign matrices; NaN if all values of one order are tied."""
    scale = np.sqrt(np.square(one).sum() * np.square(other).sum())
    return float((one * other).sum() / scale) if scale else float("nan")
