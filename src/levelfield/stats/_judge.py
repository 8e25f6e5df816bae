"""Which methods differ, which are equal for all that matters, and which may be the best.

All pairs are judged together: the chance that any two methods are called different that are not is ``alpha``,
and so is the chance that the best method is missing among the leaders.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtr, stdtrit

from levelfield.errors import UsageError
from levelfield.stats._holm import holm
from levelfield.stats._judgement import Estimate, JudgedPair, Judgement, PairVerdict
from levelfield.stats._noise import Index, Noise, class_covariance, difference_noise
from levelfield.stats._simultaneous import normal_scores, step_down, t_quantile
from levelfield.stats._table import Array, ScoreTable


def judge(
    table: ScoreTable,
    *,
    alpha: float = 0.05,
    equivalence: float | None = None,
    higher_is_better: bool = True,
    draws: int = 100_000,
    seed: int = 0,
) -> Judgement:
    """Judge all pairs of methods, with classes, seeds and, if there are several, searches as chance.

    A pair differs if its difference, over its standard error, is larger than the largest of all pairs would
    be in all but ``alpha`` of experiments without differences (step-down). It is equivalent if its
    simultaneous interval lies within ``equivalence`` of 0. Everything else is undecided.
    The order in which methods come makes no difference.

    Args:
        table: The scores.
        alpha: Chance of any false finding among all pairs.
        equivalence: The largest difference that does not matter, as a fraction: 0.005 for half a point.
        higher_is_better: Whether a higher score is the better one.
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
    means = table.means if higher_is_better else -table.means
    table = table.take(np.argsort(-means, kind="stable"))
    first, second = np.triu_indices(len(means), 1)
    pairs = _pairs(table, first, second, alpha=alpha, margin=equivalence, draws=draws, seed=seed)
    return Judgement(
        estimates=tuple(_estimates(table, pairs, alpha)),
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
    """Every pair of these indices."""
    if not len(first):
        return []
    means = table.means
    gaps = means[first] - means[second]
    noise = difference_noise(table, first, second)
    error = np.sqrt(noise.variance)
    statistics = _ratio(gaps, error)
    df = np.where(np.isnan(noise.df), 1.0, noise.df)
    p_values = np.minimum(2 * stdtr(df, -np.abs(statistics)), 1.0)
    covariance = _means_covariance(table, noise, first, second)
    adjusted, critical = step_down(
        normal_scores(statistics, df), covariance, first, second, alpha=alpha, draws=draws, seed=seed
    )
    # Holm's is the finer one where hardly any draw is as extreme
    adjusted = np.maximum(np.minimum(adjusted, holm(p_values)), p_values)
    half = np.where(np.isnan(error), np.inf, t_quantile(critical, df) * np.nan_to_num(error))
    found = []
    for k in range(len(first)):
        gap, low, high = float(gaps[k]), float(gaps[k] - half[k]), float(gaps[k] + half[k])
        different = bool(adjusted[k] < alpha and gap != 0)
        if different:  # steps after the first can tell more than the one interval for all
            low, high = (max(low, 0.0), high) if gap > 0 else (low, min(high, 0.0))
        verdict: PairVerdict = "better" if different else "undecided"
        if not different and margin is not None and -margin < low and high < margin:
            verdict = "equivalent"
        found.append(
            JudgedPair(
                first=table.methods[first[k]],
                second=table.methods[second[k]],
                difference=gap,
                low=low,
                high=high,
                df=float(noise.df[k]),
                p_value=float(p_values[k]),
                p_adjusted=float(adjusted[k]),
                verdict=verdict,
                margin=margin,
            )
        )
    return found


def _estimates(table: ScoreTable, pairs: list[JudgedPair], alpha: float) -> list[Estimate]:
    count = len(table.methods)
    noise = difference_noise(table, np.arange(count), np.full(count, count))  # against nothing
    half = stdtrit(noise.df, np.full(count, 1 - alpha / 2)) * np.sqrt(noise.variance)
    means = table.means
    unknown = np.full(count, np.nan)
    classes = unknown if noise.classes is None else np.sqrt(noise.classes)
    replicates = unknown if noise.replicates is None else np.sqrt(noise.replicates)
    beaten = {pair.second for pair in pairs if pair.verdict == "better"}
    behind = dict.fromkeys(table.methods, 0.0)
    for pair in pairs:
        # the first of a pair has the better mean, whichever way is better
        low, high = (pair.low, pair.high) if pair.difference >= 0 else (-pair.high, -pair.low)
        behind[pair.second] = max(behind[pair.second], high)
        behind[pair.first] = max(behind[pair.first], -low)
    found = []
    for k, name in enumerate(table.methods):
        mean = float(means[k])
        found.append(
            Estimate(
                method=name,
                mean=mean,
                low=mean - float(half[k]),
                high=mean + float(half[k]),
                df=float(noise.df[k]),
                class_error=float(classes[k]),
                replicate_error=float(replicates[k]),
                leads=name not in beaten,
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
    """Each method's part (M) of the variances of differences (M x M), which sum up to them."""
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
    if trained.any() and table.counts[trained].max() == 2:
        found.append(
            f"Each method has two {'reruns' if table.repeats == 1 else 'searches'}, which may agree by luck: "
            "where seeds matter more than classes, up to 12% of experiments without differences show one."
        )
    if trained.any() and table.repeats == 1:
        found.append(
            "Each method was searched once: luck in the search is not counted, so verdicts are about the "
            "selected hyperparameters, not about the methods."
        )
    return found


def _ratio(gaps: Array, error: Array) -> Array:
    """Differences over their standard errors: 0 where there is none to divide by or nothing to divide."""
    known = np.isfinite(error) & (gaps != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(known, gaps / error, 0.0)
