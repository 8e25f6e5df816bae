"""Variances from few values, made safer by looking at many of them, after Smyth (2004)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

Array = NDArray[np.float64]


def moderated(variances: Array, df: Array, *, pooled_df: float) -> tuple[Array, Array]:
    """Each variance (n) no less than what the others make likely, with its degrees of freedom (n).

    Three reruns may agree by luck; so a variance is drawn towards the typical one, the more the more alike
    all are. A variance that is larger than that keeps its own value: an unstable method stays unstable.

    Args:
        variances: Estimates (n).
        df: Their degrees of freedom (n); a variance of 0 degrees is unknown and becomes the typical one.
        pooled_df: Degrees of freedom of all of them together, which the result never exceeds.

    Example:
        >>> found, df = moderated(np.array([1.0, 1.1, 0.2]), np.array([2.0, 2.0, 2.0]), pooled_df=6)
        >>> found.round(2).tolist(), df.tolist()
        ([1.0, 1.1, 0.77], [6.0, 6.0, 6.0])
    """
    known = df > 0
    own = np.maximum(variances[known], max(1e-5 * float(np.median(variances[known])), 1e-16))
    typical, prior_df = _prior(own, df[known])
    weight = 1.0 if math.isinf(prior_df) else prior_df / (prior_df + np.where(known, df, 0.0))
    drawn = weight * typical + (1 - weight) * np.where(known, variances, typical)
    return np.where(known, np.maximum(drawn, variances), drawn), np.minimum(prior_df + df, pooled_df)


def _prior(variances: Array, df: Array) -> tuple[float, float]:
    """The typical variance and the degrees of freedom it is worth, from how much the variances scatter.

    Sampling alone scatters log-variances by trigamma(df/2); what is more than that is true scatter.
    """
    logs = np.log(variances) - digamma(df / 2) + np.log(df / 2)
    scatter = float(logs.var(ddof=1) - polygamma(1, df / 2).mean()) if len(logs) > 1 else 0.0
    if scatter <= 0:
        return float(np.average(variances, weights=df)), math.inf
    prior_df = 2 * _inverse_trigamma(scatter)
    typical = math.exp(float(logs.mean()) + float(digamma(prior_df / 2)) - math.log(prior_df / 2))
    return typical, prior_df


def _inverse_trigamma(value: float) -> float:
    """Newton's method on 1 / trigamma, which is nearly straight."""
    found = 0.5 + 1 / value
    for _ in range(50):
        now = float(polygamma(1, found))
        step = now * (1 - now / value) / float(polygamma(2, found))
        found += step
        if abs(step) < 1e-10 * found:
            break
    return found


def shared_df(residuals: Sequence[Array], df: Array) -> float:
    """Degrees of freedom of the mean of several variances, fewer if the values behind them move together.

    Args:
        residuals: By variance: the values' deviations from their mean, in the same order for all.
        df: Degrees of freedom of each variance (n).

    Example:
        >>> a, b = np.array([1.0, -1.0, 0.0]), np.array([0.5, 0.5, -1.0])
        >>> shared_df([a, b], np.array([2.0, 2.0])), round(shared_df([a, 2 * a], np.array([2.0, 2.0])), 2)
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
