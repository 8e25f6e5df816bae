"""Is one method better than another on the same queries? Paired bootstrap and paired permutation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from levelfield.errors import UsageError
from levelfield.stats._resample import bootstrap_means, flipped_sums

Values: TypeAlias = Sequence[float] | NDArray[np.floating]


@dataclass(frozen=True)
class Difference:
    """Mean of ``a - b`` over n pairs with the ends of its confidence interval."""

    mean: float
    low: float
    high: float
    n: int


def paired_bootstrap(
    a: Values, b: Values, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Difference:
    """The mean difference of paired values ``a`` (n) and ``b`` (n) with its percentile bootstrap interval.

    Pairs are drawn together, so what a query does to both methods cancels.

    Example:
        >>> result = paired_bootstrap([0.9, 0.8, 0.7, 0.9], [0.5, 0.5, 0.4, 0.6])
        >>> round(result.mean, 3), result.low > 0
        (0.325, True)
    """
    differences = paired_differences(a, b)
    means = bootstrap_means(differences[:, None], resamples=resamples, seed=seed)[:, 0]
    return bootstrap_interval(differences, means, confidence=confidence)


def paired_permutation(a: Values, b: Values, *, permutations: int = 10_000, seed: int = 0) -> float:
    """The two-sided p-value of "``a`` (n) and ``b`` (n) could be swapped in every pair".

    Signs of the differences are flipped at random; all 2^n flips are tried where that is not more work.
    Random flips count the observed one as one of them, so that p is never 0.

    Example:
        >>> paired_permutation([0.9, 0.8, 0.7, 0.9], [0.5, 0.5, 0.4, 0.6])
        0.125
    """
    differences = paired_differences(a, b)
    sums, exact = flipped_sums(differences[:, None], permutations=permutations, seed=seed)
    scale = float(np.abs(differences).sum())
    return permutation_p_value(float(differences.sum()), sums[:, 0], scale=scale, exact=exact)


def bootstrap_interval(
    differences: NDArray[np.float64], means: NDArray[np.float64], *, confidence: float
) -> Difference:
    """The mean of ``differences`` (n) with the percentiles of its bootstrap ``means`` (resamples)."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1, got {confidence}")
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Difference(mean=float(differences.mean()), low=float(low), high=float(high), n=len(differences))


def permutation_p_value(observed: float, sums: NDArray[np.float64], *, scale: float, exact: bool) -> float:
    """How often ``sums`` under flipped signs are as far from 0 as the ``observed`` sum of differences.

    Sums of the same numbers in another order differ in the last bits; within 1e-12 of ``scale``, the sum of
    the sizes of all numbers added, they count as ties.
    """
    extreme = int((np.abs(sums) >= abs(observed) - 1e-12 * scale).sum())
    return extreme / len(sums) if exact else (extreme + 1) / (len(sums) + 1)


def paired_differences(a: Values, b: Values) -> NDArray[np.float64]:
    """``a - b`` (n), after checking that they are paired, finite and not empty."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise UsageError(
            "paired values must be two lists of the same length, in the same order of queries, "
            f"got shapes {first.shape} and {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise UsageError("paired values must be finite, got NaN or infinity; leave those queries out of both")
    return first - second
