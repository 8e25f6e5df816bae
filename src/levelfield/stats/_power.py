"""What a budget can tell: the difference it finds, and the budget that a wanted difference needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import chi2, studentized_range

from levelfield.errors import UsageError
from levelfield.stats._noise import FEW_CLASSES, class_covariance, residual_covariance, variance_over
from levelfield.stats._simultaneous import t_quantile
from levelfield.stats._table import Array, ScoreTable

MOST_RERUNS = 200
MOST_REPEATS = 50


@dataclass(frozen=True)
class Components:
    """Where the chance in a difference of two typical methods comes from: variances, per unit of each source.

    Attributes:
        classes: Of one class; 0 where there are no values per query.
        seeds: Of one rerun, apart from ``residual``.
        search: Of one search; None where each method was searched once, so that nobody knows.
        residual: Of one class in one rerun.
    """

    classes: float
    seeds: float
    search: float | None
    residual: float

    def variance(self, *, classes: int, reruns: int, repeats: int = 1) -> float:
        """The squared standard error of a difference under this budget.

        Example:
            >>> Components(classes=4.0, seeds=2.0, search=None, residual=8.0).variance(classes=100, reruns=4)
            0.56
        """
        runs = reruns * repeats
        search = 0.0 if self.search is None or repeats < 2 else self.search / repeats
        return self.classes / classes + self.residual / (classes * runs) + self.seeds / runs + search


@dataclass(frozen=True)
class Budget:
    """An affordable plan and what it can tell.

    Attributes:
        reruns: Per search.
        repeats: Searches per method.
        detectable: The difference it finds with the wanted power.
    """

    reruns: int
    repeats: int
    detectable: float


def components(table: ScoreTable) -> Components:
    """Estimate where chance comes from, from the records at hand: typical over all pairs of trained methods.

    A table with one trained method gives that of two methods like it that share nothing.

    Example:
        >>> from levelfield.stats import rerun_table
        >>> components(rerun_table({"a": [1.0, 2.0, 3.0], "b": [1.0, 4.0, 1.0]})).seeds
        4.0
    """
    trained = ~table.fixed
    if not trained.any() or table.counts[trained].max() < 2:
        raise UsageError(
            "how much reruns scatter is unknown: confirm a method with at least two reruns first"
        )
    between = _over_replicates(table.scores[trained])
    moves = over_classes = 0.0  # of a replicate; of the mean
    classes = 1 if table.shares is None else len(table.shares)
    if table.pulls is not None:
        moves = _mean_difference(residual_covariance(table), trained)
        replicates = float(np.mean(table.counts[trained]))
        over_classes = max(_mean_difference(class_covariance(table), trained) - moves / replicates, 0.0)
    apart = max(between - moves, 0.0)
    if table.repeats == 1:
        return Components(over_classes * classes, apart, None, moves * classes)
    reruns = float(np.mean(np.isfinite(table.runs[trained]).sum(axis=2)))
    within = _over_replicates((table.runs - np.nanmean(table.runs, axis=2, keepdims=True))[trained])
    # a mean of few deviates by less than one
    seeds = max(within * reruns / max(reruns - 1, 1) - moves * reruns, 0.0)
    return Components(
        over_classes * classes, seeds, max(apart - seeds / reruns, 0.0), moves * reruns * classes
    )


def detectable_difference(
    parts: Components,
    *,
    methods: int,
    classes: int,
    reruns: int,
    repeats: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """The difference between two of ``methods`` that ``judge`` finds with probability ``power``.

    Example:
        >>> parts = Components(classes=9e-4, seeds=2e-5, search=None, residual=0.0)
        >>> round(100 * detectable_difference(parts, methods=5, classes=100, reruns=10), 2)  # points
        1.21
    """
    if methods < 2 or classes < 2 or reruns < 1 or repeats < 1 or reruns * repeats < 2:
        raise UsageError("power needs at least 2 methods, 2 classes and 2 reruns or searches")
    if not (0 < power < 1 and 0 < alpha < 1):
        raise UsageError(f"power and alpha must lie between 0 and 1, got {power} and {alpha}")
    variance = parts.variance(classes=classes, reruns=reruns, repeats=repeats)
    over_classes = parts.classes / classes
    over_replicates = variance - over_classes
    replicates_df = (methods - 1) * ((repeats if repeats > 1 else reruns) - 1)
    # degrees of freedom and critical value as `judge` has them, or more would be promised than it finds
    weighed = [over_classes * (1 + 4 / (classes - 1)), over_replicates * (1 + 4 / replicates_df)]
    spread = weighed[0] ** 2 / (classes - 1) + weighed[1] ** 2 / replicates_df
    df = sum(weighed) ** 2 / spread if spread > 0 else math.inf
    score = float(studentized_range.ppf(1 - alpha, methods, 1e5)) / math.sqrt(2)
    critical = float(t_quantile(score, np.array([df]))[0])
    estimated = variance
    if methods > 2:
        own_df = (repeats if repeats > 1 else reruns) - 1
        estimated += over_replicates * (_kept_larger(own_df) - 1)
        if classes - 1 < FEW_CLASSES:
            estimated += over_classes * (_kept_larger(classes - 1) - 1)
    return critical * math.sqrt(estimated) + float(stdtrit(df, power)) * math.sqrt(variance)


def _kept_larger(df: int) -> float:
    """By how much `judge` overrates a variance on average: it keeps those that came out larger than typical.

    Example:
        >>> round(_kept_larger(2), 2), round(_kept_larger(9), 2)
        (1.37, 1.18)
    """
    return float(chi2.cdf(df, df) + chi2.sf(df, df + 2))


def cheapest_budget(
    parts: Components,
    difference: float,
    *,
    methods: int,
    classes: int,
    trials: int,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Budget | None:
    """The cheapest reruns and searches that find ``difference``, counted in trained runs per method.

    Where the luck of a search is known, it must be counted, so at least two searches are planned.

    Args:
        parts: Where chance comes from.
        difference: Wanted, as a fraction: 0.005 for half a point.
        methods: How many are compared.
        classes: Of the test set; more of them cannot be bought.
        trials: Of one search.
        power: Chance of finding the difference.
        alpha: Chance of any false finding.

    Returns:
        None where no budget within reach can tell that difference with this test set.

    Example:
        >>> parts = Components(classes=9e-4, seeds=2e-5, search=None, residual=0.0)
        >>> cheapest_budget(parts, 0.0125, methods=5, classes=100, trials=20).reruns
        8
        >>> cheapest_budget(parts, 0.005, methods=5, classes=100, trials=20) is None
        True
    """
    if not difference > 0:
        raise UsageError(f"the wanted difference must be above 0, got {difference}")
    if trials < 0:
        raise UsageError(f"a search has at least 0 trials, got {trials}")

    def found(reruns: int, repeats: int) -> float:
        return detectable_difference(
            parts,
            methods=methods,
            classes=classes,
            reruns=reruns,
            repeats=repeats,
            power=power,
            alpha=alpha,
        )

    best: tuple[int, Budget] | None = None
    for repeats in [1] if parts.search is None else range(2, MOST_REPEATS + 1):
        fewest = 2 if repeats == 1 else 1
        if best is not None and repeats * (trials + fewest) >= best[0]:
            break
        if found(MOST_RERUNS, repeats) > difference:
            continue
        low, high = fewest, MOST_RERUNS  # more reruns never tell less: halve the range
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if found(middle, repeats) <= difference else (middle + 1, high)
        cost = repeats * (trials + low)
        if best is None or cost < best[0]:
            best = cost, Budget(low, repeats, found(low, repeats))
    return None if best is None else best[1]


def _over_replicates(scores: Array) -> float:
    """Variance of a paired difference over replicates (M x U, or M x S x R and centred), over all pairs."""
    flat = scores.reshape(len(scores), -1)
    if len(flat) == 1:
        return 2 * float(variance_over(flat)[0][0])
    i, j = np.triu_indices(len(flat), 1)
    variances, df = variance_over(flat[i] - flat[j])
    if df.sum() == 0:
        variances, df = variance_over(flat)
        return 2 * float(np.average(variances, weights=df))
    return float(np.average(variances, weights=df))


def _mean_difference(covariance: Array, trained: NDArray[np.bool_]) -> float:
    """Mean over pairs of the variance of their difference; twice its own for a single method."""
    chosen = covariance[:-1, :-1][np.ix_(trained, trained)]
    if len(chosen) == 1:
        return 2 * float(chosen[0, 0])
    apart = (chosen.sum() - np.trace(chosen)) / (len(chosen) * (len(chosen) - 1))
    return max(2 * float(np.trace(chosen) / len(chosen) - apart), 0.0)
