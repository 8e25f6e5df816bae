"""Two sources of chance at once: the queries a model is asked, and the seeds it was trained with.

A difference of methods must stand out against both. Their variances are added, as in any crossed design; what
few reruns say of a method's variance is shrunk towards the other methods', after Smyth (2004).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma
from scipy.stats import t as student

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RerunNoise:
    """How sure the mean over a method's reruns is.

    Attributes:
        variances: Squared standard error of each method's mean.
        df: Degrees of freedom of each of them.
    """

    variances: Mapping[str, float]
    df: float

    def between(self, first: str, second: str) -> float:
        """The squared standard error of the difference of two means."""
        return self.variances[first] + self.variances[second]


def rerun_noise(scores: Mapping[str, Sequence[float]], *, fixed: Collection[str] = ()) -> RerunNoise | None:
    """The noise of reruns, each method's own but no less than what the other methods make likely.

    Three reruns may agree by luck; so the variance of a method is drawn towards the typical one, the more the
    more alike the methods' variances are. A method that is truly unstable keeps its own.

    Args:
        scores: Scores of the reruns by method.
        fixed: Methods that would score the same every time, such as a pretrained network.

    Returns:
        None where no method has two reruns.

    Example:
        >>> noise = rerun_noise({"a": [0.50, 0.52, 0.51], "b": [0.4, 0.41, 0.405], "c": [0.3, 0.31, 0.32]})
        >>> {name: round(variance**0.5, 4) for name, variance in noise.variances.items()}, noise.df
        ({'a': 0.0058, 'b': 0.005, 'c': 0.0058}, 6.0)
    """
    varied = {name: values for name, values in scores.items() if name not in fixed and len(values) > 1}
    if not varied:
        return None
    own = np.array([np.var(values, ddof=1) for values in varied.values()])
    df = np.array([len(values) - 1.0 for values in varied.values()])
    typical, prior_df = _prior(np.maximum(own, max(1e-5 * float(np.median(own)), 1e-16)), df)
    if math.isinf(prior_df):
        shrunk = np.full_like(own, typical)
    else:
        shrunk = (prior_df * typical + df * own) / (prior_df + df)
    safe = dict(zip(varied, np.maximum(shrunk, own).tolist(), strict=True))
    variances = {
        name: 0.0 if name in fixed else safe.get(name, typical) / max(1, len(values))
        for name, values in scores.items()
    }
    return RerunNoise(variances, float(min(prior_df + df.min(), df.sum())))


def crossed_p_value(
    difference: float, *, queries: tuple[float, float] | None, reruns: tuple[float, float] | None
) -> float:
    """The two-sided p-value of a difference, each source of chance a squared standard error and its df.

    Without any source nothing can be said: 1.

    Example:
        >>> round(crossed_p_value(0.02, queries=(0.005**2, 400), reruns=None), 4)
        0.0001
        >>> round(crossed_p_value(0.02, queries=(0.005**2, 400), reruns=(0.01**2, 4)), 2)
        0.12
    """
    sources = [source for source in (queries, reruns) if source is not None]
    variance = sum(source[0] for source in sources)
    if not sources or difference == 0:
        return 1.0
    if variance == 0:
        return 0.0
    # Satterthwaite's degrees of freedom of a sum of variances
    df = variance**2 / sum(source[0] ** 2 / source[1] for source in sources)
    return float(2 * student.sf(abs(difference) / math.sqrt(variance), df))


def half_width(variance: float, df: float, *, confidence: float = 0.95) -> float:
    """Half the width of the t-interval of that squared standard error."""
    return float(student.ppf((1 + confidence) / 2, df) * math.sqrt(variance))


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
