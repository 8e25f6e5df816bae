"""Whether two measurements put methods in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.errors import UsageError

Array = NDArray[np.float64]
RESAMPLES = 2000


FEW = 8  # methods: with fewer, many resamples hold two or three different ones


@dataclass(frozen=True)
class Agreement:
    """Kendall's tau-b between two orders of the same methods.

    Attributes:
        tau: 1 for the same order, 0 for none in common, -1 for the opposite one.
        low: Lower end of its 95% interval over methods of this kind.
        high: Upper end.
        methods: How many both orders have.
    """

    tau: float
    low: float
    high: float
    methods: int

    def __str__(self) -> str:
        """As tables print it; an interval over a handful of methods would look surer than it is."""
        if self.methods < FEW:
            return f"{self.tau:+.2f} (of {self.methods})"
        return f"{self.tau:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def rank_agreement(first: Mapping[str, float], second: Mapping[str, float], *, seed: int = 0) -> Agreement:
    """Compare the orders that two sets of scores give the methods that both have.

    The interval is a percentile bootstrap over methods: it says how far tau would move with other methods of
    this kind, not with other seeds or classes.

    Args:
        first: Scores by method.
        second: The same by another measure, on other data, or from another paper.
        seed: Of the bootstrap.

    Example:
        >>> rank_agreement({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 30, "c": 20, "d": 5}).tau
        0.3333333333333333
    """
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 3:
        raise UsageError(f"an order of {len(shared)} methods says nothing; at least 3 must be in both")
    one = _signs(np.array([first[method] for method in shared], dtype=np.float64))
    other = _signs(np.array([second[method] for method in shared], dtype=np.float64))
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(shared), size=(RESAMPLES, len(shared)))
    taus = [_tau_b(one[np.ix_(rows, rows)], other[np.ix_(rows, rows)]) for rows in drawn]
    low, high = np.nanpercentile(taus, [2.5, 97.5])
    return Agreement(_tau_b(one, other), float(low), float(high), len(shared))


def _signs(scores: Array) -> Array:
    """Who stands before whom (n x n): 1, 0 for ties, -1."""
    signs: Array = np.sign(scores[:, None] - scores[None, :])
    return signs


def _tau_b(one: Array, other: Array) -> float:
    """NaN where one of the orders ties everything, as a resample of one method does."""
    scale = np.sqrt(np.square(one).sum() * np.square(other).sum())
    return float((one * other).sum() / scale) if scale else float("nan")
