"""Effect sizes: the size of a difference, without its uncertainty."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from levelfield.core.errors import UsageError
from levelfield.stats._holm import Values


def cohens_d(a: Values, b: Values) -> float:
    """Return Cohen's d of paired values: the mean of ``a - b`` (n) over its standard deviation.

    Example:
        >>> cohens_d([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
        2.0
    """
    differences = paired_differences(a, b)
    if len(differences) < 2:
        raise UsageError("Cohen's d needs at least two pairs, got one; give more values")
    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    if deviation == 0:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return mean / deviation


def cliffs_delta(a: Values, b: Values) -> float:
    """Return Cliff's delta of unpaired ``a`` (n) and ``b`` (m): P(a > b) - P(a < b), from -1 to 1.

    Example:
        >>> cliffs_delta([1, 2, 3], [0, 2])
        0.5
    """
    first, second = np.asarray(a, dtype=np.float64), np.sort(np.asarray(b, dtype=np.float64))
    if first.ndim != 1 or second.ndim != 1 or not first.size or not second.size:
        raise UsageError("Cliff's delta takes two lists of at least one number each")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError("Cliff's delta takes finite numbers, got NaN or infinity; leave failed runs out")
    below = np.searchsorted(second, first, side="left").sum()
    above = second.size * first.size - np.searchsorted(second, first, side="right").sum()
    return float(below - above) / (first.size * second.size)


def paired_differences(a: Values, b: Values) -> NDArray[np.float64]:
    """Return ``a - b`` (n); raise unless both are paired, finite and not empty."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise UsageError(
            "paired values must be two lists of the same length, in the same order of queries, "
            f"got shapes {first.shape} and {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError("paired values must be finite, got NaN or infinity; leave those queries out of both")
    return first - second
