"""Moderated variances: estimates from few values shrunk toward a common one, after Smyth (2004)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

Array = NDArray[np.float64]


def moderate_variances(variances: Array, df: Array, *, pooled_df: float) -> tuple[Array, Array]:
    """Return moderated variances (n) and their degrees of freedom (n).

    Three reruns may agree by luck, so small variances are raised toward the typical one. The more alike all
    variances are, the stronger the shrinkage. A variance above the typical one keeps its value, because the
    method may really be unstable.

    Args:
        variances: Estimated variances (n).
        df: Their degrees of freedom (n); a variance with 0 is unknown and becomes the typical one.
        pooled_df: Joint degrees of freedom of all variances; upper bound of the result.

    Example:
        >>> found, df = moderate_variances(np.array([1.0, 1.1, 0.2]), np.array([2.0, 2.0, 2.0]), pooled_df=6)
        >>> found.round(2).tolist(), df.tolist()
        ([1.0, 1.1, 0.77], [6.0, 6.0, 6.0])
    """
    known = df > 0
    own = np.maximum(variances[known], max(1e-5 * float(np.median(variances[known])), 1e-16))
    typical, prior_df = prior_variance(own, df[known])
    weight = 1.0 if math.isinf(prior_df) else prior_df / (prior_df + np.where(known, df, 0.0))
    drawn = weight * typical + (1 - weight) * np.where(known, variances, typical)
    return np.where(known, np.maximum(drawn, variances), drawn), np.minimum(prior_df + df, pooled_df)


def prior_variance(variances: Array, df: Array) -> tuple[float, float]:
    """Return the typical variance and its prior degrees of freedom, from the scatter of the variances.

    Sampling alone gives log-variances the variance trigamma(df/2); the excess is true scatter.
    """
    logs = np.log(variances) - digamma(df / 2) + np.log(df / 2)
    scatter = float(logs.var(ddof=1) - polygamma(1, df / 2).mean()) if len(logs) > 1 else 0.0
    if scatter <= 0:
        return float(np.average(variances, weights=df)), math.inf
    prior_df = 2 * _inverse_trigamma(scatter)
    typical = math.exp(float(logs.mean()) + float(digamma(prior_df / 2)) - math.log(prior_df / 2))
    return typical, prior_df


def _inverse_trigamma(value: float) -> float:
    """Return the inverse of trigamma, by Newton's method on 1 / trigamma, which is nearly linear."""
    found = 0.5 + 1 / value
    for _ in range(50):
        now = float(polygamma(1, found))
        step = now * (1 - now / value) / float(polygamma(2, found))
        found += step
        if abs(step) < 1e-10 * found:
            break
    return found


def effective_df(residuals: Sequence[Array], df: Array) -> float:
    """Return the degrees of freedom of the mean of several variances; correlated values reduce them.

    Args:
        residuals: Deviations from the mean, one array per variance, in the same order for all.
        df: Degrees of freedom of each variance (n).

    Example:
        >>> a, b = np.array([1.0, -1.0, 0.0]), np.array([0.5, 0.5, -1.0])
        >>> df = np.array([2.0, 2.0])
        >>> effective_df([a, b], df), round(effective_df([a, 2 * a], df), 2)
        (4.0, 2.44)
    """
    count = len(residuals)
    if count == 1 or len({len(values) for values in residuals}) > 1:
        return float(df.max())
    table = np.stack(residuals)
    alone = float((table**2).sum())
    shared = (float((table.sum(axis=0) ** 2).sum()) - alone) / (count - 1)
    correlation = min(max(shared / alone, 0.0), 1.0) if alone > 0 else 1.0
    return float(df.sum() / (1 + (count - 1) * correlation**2))
