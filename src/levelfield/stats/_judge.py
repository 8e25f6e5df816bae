"""Which methods differ, which are equal for all that matters, and which may be the best: one verdict for each pair.

All pairs are judged together: the chance that any two methods are called different that are not is ``alpha``,
and so is the chance that the best method is missing among the leaders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtr

from levelfield.errors import UsageError, did_you_mean
from levelfield.stats._holm import holm
from levelfield.stats._noise import Index, Noise, class_covariance, difference_noise
from levelfield.stats._simultaneous import normal_scores, step_down, t_quantile
from levelfield.stats._table import Array, ScoreTable

PairVerdict = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """One method's mean, as it would be on new classes of this kind and with new seeds.

    Attributes:
        method: Its name.
        mean: Its score.
        low: Lower end of its 95% interval (or of what ``alpha`` says), for this method alone.
        high: Upper end.
        df: Degrees of freedom of the interval.
        class_error: Standard error from the choice of classes; NaN where it is not known.
        replicate_error: Standard error that reruns (or searches) add; NaN where it is not known.
        leads: Whether no other method was found better.
        behind: By how much it may be behind the best at most, simultaneously for all methods; 0 for a method
            that was found better than all others.
    """

    method: str
    mean: float
    low: float
    high: float
    df: float
    class_error: float
    replicate_error: float
    leads: bool
    behind: float


@dataclass(frozen=True)
class JudgedPair:
    """Two methods compared.

    Attributes:
        first: One method.
        second: The other.
        difference: Of their means, first - second.
        low: Lower end of the interval that holds for all pairs together.
        high: Upper end. The interval of a pair that was found different never crosses 0.
        df: Degrees of freedom of the difference.
        p_value: Of no difference, for this pair alone.
        p_adjusted: The same, corrected for all pairs.
        verdict: What ``first`` is against ``second``.
        margin: Largest difference that does not matter, if one was given.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    df: float
    p_value: float
    p_adjusted: float
    verdict: PairVerdict
    margin: float | None = None

    @property
    def negligible(self) -> bool:
        """Whether the difference, real or not, is smaller than the margin."""
        return self.margin is not None and -self.margin < self.low and self.high < self.margin

    @property
    def sentence(self) -> str:
        """The verdict in plain words, in percentage points.

        Example:
            >>> print(JudgedPair("new", "old", 0.02, 0.01, 0.03, 9.0, 0.0001, 0.0004, "better").sentence)
            new is better than old by 2.00 points [1.00, 3.00] (p < 0.001).
        """
        p = "p < 0.001" if self.p_adjusted < 0.001 else f"p = {self.p_adjusted:.3f}"
        low, high, gap = 100 * self.low, 100 * self.high, 100 * self.difference
        if self.verdict in ("better", "worse"):
            if gap < 0:
                low, high = -high, -low
            small = f", less than the {_points(self.margin)} that matter" if self.negligible else ""
            return (
                f"{self.first} is {self.verdict} than {self.second} by {abs(gap):.2f} points "
                f"[{low:.2f}, {high:.2f}] ({p}){small}."
            )
        if self.verdict == "equivalent":
            return (
                f"{self.first} and {self.second} are equivalent within {_points(self.margin)} points: "
                f"difference {gap:+.2f} [{low:+.2f}, {high:+.2f}]."
            )
        if math.isinf(self.low):
            return f"{self.first} and {self.second}: undecided, there is nothing to test a difference of {gap:+.2f} points by."
        return (
            f"{self.first} and {self.second}: undecided, difference {gap:+.2f} points "
            f"[{low:+.2f}, {high:+.2f}] ({p})."
        )


@dataclass(frozen=True)
class Judgement:
    """All methods of a table judged together.

    Attributes:
        estimates: One per method, best mean first.
        pairs: Every pair, the better mean first, in the order of the means.
        alpha: Chance of any false "better" or "worse".
        margin: Largest difference that does not matter; None if no equivalence was asked for.
        classes: How many classes counted as chance; 0 where there were no values per query.
        reruns: The largest number of reruns per search of any method.
        repeats: The largest number of searches of any method.
        caveats: What these verdicts cannot say, one sentence each.
    """

    estimates: tuple[Estimate, ...]
    pairs: tuple[JudgedPair, ...]
    alpha: float
    margin: float | None
    classes: int
    reruns: int
    repeats: int
    caveats: tuple[str, ...]

    @property
    def leaders(self) -> frozenset[str]:
        """The methods that may be the best: none was found better than they."""
        return frozenset(estimate.method for estimate in self.estimates if estimate.leads)

    def pair(self, first: str, second: str) -> JudgedPair:
        """The comparison of two methods, whichever of them comes first in it."""
        for found in self.pairs:
            if {found.first, found.second} == {first, second}:
                return found
        names = [estimate.method for estimate in self.estimates]
        wrong = first if first not in names else second
        raise UsageError(f'no comparison with "{wrong}"{did_you_mean(wrong, names)}')


def judge(
    table: ScoreTable,
    *,
    alpha: float = 0.05,
    equivalence: float | None = None,
    draws: int = 20_000,
    seed: int = 0,
) -> Judgement:
    """Judge all pairs of methods, with classes, seeds and (with several of them) searches counted as chance.

    A pair differs if its difference, over its standard error, is larger than the largest of all pairs would be in
    all but ``alpha`` of experiments without differences (step-down). It is equivalent if its simultaneous interval
    lies within ``equivalence`` of 0. Everything else is undecided.

    Args:
        table: The scores.
        alpha: Chance of any false finding among all pairs.
        equivalence: The largest difference that does not matter, as a fraction: 0.005 for half a point.
        draws: Random experiments that the correction for all pairs is taken from.
        seed: Of them.

    Example:
        >>> from levelfield.stats import score_table
        >>> generator = np.random.default_rng(0)
        >>> hard = generator.random((1, 200))
        >>> noise = lambda: 0.1 * generator.normal(size=(5, 200))
        >>> scores = {"new": hard + 0.05 + noise(), "old": hard + noise(), "twin": hard + noise()}
        >>> verdicts = judge(score_table(scores, classes=np.arange(200) // 10), equivalence=0.05)
        >>> [pair.verdict for pair in verdicts.pairs], sorted(verdicts.leaders)
        (['better', 'better', 'equivalent'], ['new'])
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, got {alpha}")
    if equivalence is not None and not 0 < equivalence < math.inf:
        raise UsageError(f"the difference that does not matter must be above 0, got {equivalence}")
    order = np.argsort(-table.means, kind="stable")
    i, j = np.triu_indices(len(order), 1)
    pairs = _pairs(table, order[i], order[j], alpha=alpha, margin=equivalence, draws=draws, seed=seed)
    return Judgement(
        estimates=tuple(_estimates(table, order, pairs, alpha)),
        pairs=tuple(pairs),
        alpha=alpha,
        margin=equivalence,
        classes=0 if table.shares is None else len(table.shares),
        reruns=int(np.isfinite(table.runs).sum(axis=2).max()),
        repeats=table.repeats,
        caveats=tuple(_caveats(table)),
    )


def _pairs(
    table: ScoreTable,
    first: Index,
    second: Index,
    *,
    alpha: float,
    margin: float | None,
    draws: int,
    seed: int,
) -> list[JudgedPair]:
    if not len(first):
        return []
    gaps = table.means[first] - table.means[second]
    noise = difference_noise(table, first, second)
    error = np.sqrt(noise.variance)
    statistics = _ratio(gaps, error)
    df = np.where(np.isnan(noise.df), 1.0, noise.df)
    p_values = np.minimum(2 * stdtr(df, -np.abs(statistics)), 1.0)
    covariance = _means_covariance(table, noise, first, second)
    adjusted, critical = step_down(
        normal_scores(statistics, df), covariance, first, second, alpha=alpha, draws=draws, seed=seed
    )
    adjusted = np.minimum(
        adjusted, holm(p_values)
    )  # the finer of the two where hardly any draw is as extreme
    half = np.where(np.isnan(error), np.inf, t_quantile(critical, df) * np.nan_to_num(error))
    found = []
    for k in range(len(first)):
        low, high = float(gaps[k] - half[k]), float(gaps[k] + half[k])
        different = bool(adjusted[k] < alpha and gaps[k] != 0)
        if different:  # steps after the first can tell more than the one interval for all
            low, high = (max(low, 0.0), high) if gaps[k] > 0 else (low, min(high, 0.0))
        found.append(
            JudgedPair(
                first=table.methods[first[k]],
                second=table.methods[second[k]],
                difference=float(gaps[k]),
                low=low,
                high=high,
                df=float(noise.df[k]),
                p_value=float(p_values[k]),
                p_adjusted=float(adjusted[k]),
                verdict=_verdict(float(gaps[k]), different, low, high, margin),
                margin=margin,
            )
        )
    return found


def _verdict(gap: float, different: bool, low: float, high: float, margin: float | None) -> PairVerdict:
    if different:
        return "better" if gap > 0 else "worse"
    return "equivalent" if margin is not None and -margin < low and high < margin else "undecided"


def _estimates(table: ScoreTable, order: Index, pairs: list[JudgedPair], alpha: float) -> list[Estimate]:
    noise = difference_noise(table, order, np.full_like(order, len(table.methods)))
    half = t_quantile(float(normal_scores(np.array([_two_sided(alpha)]), np.array([np.inf]))[0]), noise.df)
    unknown = np.full(len(order), np.nan)
    classes = unknown if noise.classes is None else np.sqrt(noise.classes)
    replicates = unknown if noise.replicates is None else np.sqrt(noise.replicates)
    worse = {
        pair.second if pair.verdict == "better" else pair.first
        for pair in pairs
        if pair.verdict in ("better", "worse")
    }
    behind = dict.fromkeys(table.methods, 0.0)
    for pair in pairs:
        behind[pair.second] = max(behind[pair.second], pair.high)
        behind[pair.first] = max(behind[pair.first], -pair.low)
    found = []
    for k, method in enumerate(order):
        name, mean = table.methods[method], float(table.means[method])
        width = float(half[k] * math.sqrt(noise.variance[k]))
        found.append(
            Estimate(
                method=name,
                mean=mean,
                low=mean - width,
                high=mean + width,
                df=float(noise.df[k]),
                class_error=float(classes[k]),
                replicate_error=float(replicates[k]),
                leads=name not in worse,
                behind=behind[name],
            )
        )
    return found


def _means_covariance(table: ScoreTable, noise: Noise, first: Index, second: Index) -> Array:
    """Covariance of the methods' means (M x M), as far as differences depend on it."""
    size = len(table.methods)
    covariance = (
        np.zeros((size, size)) if noise.classes is None else class_covariance(table)[:size, :size].copy()
    )
    if noise.replicates is not None:
        between = np.zeros((size, size))
        between[first, second] = between[second, first] = noise.replicates
        covariance += np.diag(_shares_of(between))
    if not covariance.any():
        covariance = np.eye(size)
    return covariance


def _shares_of(between: Array) -> Array:
    """Each method's part (M) of the variances of differences (M x M), such that parts of two sum up to them."""
    size = len(between)
    if size == 2:
        return np.full(2, between[0, 1] / 2)
    sums = between.sum(axis=1)
    parts: Array = np.maximum((sums - sums.sum() / (2 * (size - 1))) / (size - 2), 0.0)
    return parts


def _caveats(table: ScoreTable) -> list[str]:
    found = []
    if table.pulls is None:
        found.append("There are no values per query: chance in the choice of classes is not counted.")
    trained = ~table.fixed
    if trained.any() and table.counts[trained].max() < 2:
        found.append("Each method was trained once: luck of the seeds is not counted.")
    if trained.any() and table.repeats == 1:
        found.append(
            "Each method was searched once: luck in the search is not counted, so verdicts are about the selected "
            "hyperparameters, not about the methods."
        )
    return found


def _ratio(gaps: Array, error: Array) -> Array:
    """Differences over their standard errors: 0 where there is none to divide by or nothing to divide."""
    known = np.isfinite(error) & (gaps != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known, gaps / error, 0.0)


def _two_sided(alpha: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(alpha / 2))


def _points(margin: float | None) -> str:
    return f"{100 * (margin or 0):.3g}"
