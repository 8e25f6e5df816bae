"""Power: the difference that a budget can detect, and the budget that a wanted difference needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit
from scipy.stats import chi2, studentized_range

from levelfield.core.errors import UsageError
from levelfield.stats._difference_variance import (
    FEW_CLASSES,
    class_covariance,
    residual_covariance,
    variance_over,
)
from levelfield.stats._table import Array, ScoreTable

MOST_RERUNS = 200
MOST_REPEATS = 2_000
FEW_REPLICATES = {2: 1.26, 3: 1.09, 4: 1.04}  # factor on intervals: `judge` learns variances from few
MORE_CLASSES = (1, 2, 4, 8)  # multiples of the test classes that a plan considers


@dataclass(frozen=True)
class VarianceComponents:
    """Variances of the difference of two typical methods, per unit of each source.

    Attributes:
        classes: Variance of one class; 0 without values per query.
        seeds: Variance of one rerun, without ``residual``.
        search: Variance of one search; None if each method was searched once, so that it is unknown.
        residual: Variance of one class in one rerun.
    """

    classes: float
    seeds: float
    search: float | None
    residual: float

    def variance(self, *, classes: int, reruns: int, repeats: int = 1) -> float:
        """Return the squared standard error of a difference under this budget.

        Example:
            >>> parts = VarianceComponents(classes=4.0, seeds=2.0, search=None, residual=8.0)
            >>> parts.variance(classes=100, reruns=4)
            0.56
        """
        runs = reruns * repeats
        search = 0.0 if self.search is None or repeats < 2 else self.search / repeats
        return self.classes / classes + self.residual / (classes * runs) + self.seeds / runs + search


@dataclass(frozen=True)
class Budget:
    """Number of searches, trials, reruns and classes, and the difference that they can detect.

    Attributes:
        reruns: Reruns per search.
        repeats: Searches per method.
        detectable: Difference that is found with the wanted power, as a fraction.
        trials: Trials per search.
        classes: Number of test classes.
        runs: Trainings per method: searches x (trials + reruns) x folds.
    """

    reruns: int
    repeats: int
    detectable: float
    trials: int = 0
    classes: int = 0
    runs: int = 0


def variance_components(table: ScoreTable) -> VarianceComponents:
    """Estimate the variance components, averaged over all pairs of trained methods.

    For a table with one trained method they are those of two independent methods like it.

    Example:
        >>> from levelfield.stats import rerun_table
        >>> variance_components(rerun_table({"a": [1.0, 2.0, 3.0], "b": [1.0, 4.0, 1.0]})).seeds
        4.0
    """
    trained = ~table.fixed
    if not trained.any() or table.counts[trained].max() < 2:
        raise UsageError("the variance of reruns is unknown; confirm a method with at least two reruns first")
    between = _over_replicates(table.scores[trained])
    moves = over_classes = 0.0  # variances of a replicate and of the mean
    classes = 1 if table.class_shares is None else len(table.class_shares)
    if table.class_effects is not None:
        moves = _mean_difference_variance(residual_covariance(table), trained)
        replicates = float(np.mean(table.counts[trained]))
        over_classes = max(
            _mean_difference_variance(class_covariance(table), trained) - moves / replicates, 0.0
        )
    net = max(between - moves, 0.0)
    if table.repeats == 1:
        return VarianceComponents(over_classes * classes, net, None, moves * classes)
    reruns = float(np.mean(np.isfinite(table.runs[trained]).sum(axis=2)))
    there = np.isfinite(table.runs)
    counts = np.maximum(there.sum(axis=2, keepdims=True), 1)  # a fixed method has no second search
    own = table.runs - np.where(there, table.runs, 0.0).sum(axis=2, keepdims=True) / counts
    within = _over_replicates(own[trained])
    # deviations from a mean of few values are too small
    seeds = max(within * reruns / max(reruns - 1, 1) - moves * reruns, 0.0)
    return VarianceComponents(
        over_classes * classes, seeds, max(net - seeds / reruns, 0.0), moves * reruns * classes
    )


def detectable_difference(
    parts: VarianceComponents,
    *,
    methods: int,
    classes: int,
    reruns: int,
    repeats: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Return the difference between two of ``methods`` that ``judge`` detects with probability ``power``.

    Example:
        >>> parts = VarianceComponents(classes=9e-4, seeds=2e-5, search=None, residual=0.0)
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
    # close to the intervals of `judge`: tests/stats/test_power.py compares them with simulated ones
    inflated = [over_classes * (1 + 4 / (classes - 1)), over_replicates * (1 + 4 / replicates_df)]
    spread = inflated[0] ** 2 / (classes - 1) + inflated[1] ** 2 / replicates_df
    df = sum(inflated) ** 2 / spread if spread > 0 else math.inf
    score = _tukey(methods, alpha)
    critical = float(_t_quantile(score, np.array([df]))[0])
    estimated = variance
    if methods > 2:
        count = repeats if repeats > 1 else reruns
        critical *= FEW_REPLICATES.get(count, 1.0)
        estimated += over_replicates * (_moderation_bias(count - 1) - 1)
        if classes - 1 < FEW_CLASSES:
            estimated += over_classes * (_moderation_bias(classes - 1) - 1)
    return critical * math.sqrt(estimated) + float(stdtrit(df, power)) * math.sqrt(variance)


@lru_cache(maxsize=64)
def _tukey(methods: int, alpha: float) -> float:
    """Return the critical value of the largest of all pairs' normal scores."""
    return float(studentized_range.ppf(1 - alpha, methods, 1e5)) / math.sqrt(2)


@lru_cache(maxsize=4096)
def _moderation_bias(df: int) -> float:
    """Return the mean factor by which a variance is overestimated if those below the typical one are raised.

    Example:
        >>> round(_moderation_bias(2), 2), round(_moderation_bias(9), 2)
        (1.37, 1.18)
    """
    return float(chi2.cdf(df, df) + chi2.sf(df, df + 2))


def cheapest_budget(
    parts: VarianceComponents,
    difference: float,
    *,
    methods: int,
    classes: int,
    trials: int,
    power: float = 0.8,
    alpha: float = 0.05,
) -> Budget | None:
    """Return the numbers of reruns and searches that detect ``difference`` with the fewest runs per method.

    If the variance of searches is known, at least two searches are planned.

    Args:
        parts: Variance components.
        difference: Difference to detect, as a fraction: 0.005 for half a point.
        methods: Number of methods to compare.
        classes: Number of classes of the test set.
        trials: Number of trials of one search.
        power: Probability of detecting the difference.
        alpha: Probability of any false difference.

    Returns:
        The budget; None if no feasible budget detects that difference on this test set.

    Example:
        >>> parts = VarianceComponents(classes=9e-4, seeds=2e-5, search=None, residual=0.0)
        >>> cheapest_budget(parts, 0.0125, methods=5, classes=100, trials=20).reruns
        8
        >>> cheapest_budget(parts, 0.005, methods=5, classes=100, trials=20) is None
        True
    """
    if not difference > 0:
        raise UsageError(f"the wanted difference must be above 0, got {difference}")
    if trials < 0:
        raise UsageError(f"trials must be at least 0, got {trials}")

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
    counts = [1] if parts.search is None else range(2, MOST_REPEATS + 1)
    if found(MOST_RERUNS, counts[-1]) > difference:
        return None
    for repeats in counts:
        fewest = 2 if repeats == 1 else 1
        if best is not None and repeats * (trials + fewest) >= best[0]:
            break
        if found(MOST_RERUNS, repeats) > difference:
            continue
        low, high = fewest, MOST_RERUNS  # binary search: more reruns never detect less
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if found(middle, repeats) <= difference else (middle + 1, high)
        cost = repeats * (trials + low)
        if best is None or cost < best[0]:
            best = cost, Budget(low, repeats, found(low, repeats), trials, classes, cost)
    return None if best is None else best[1]


def plan_budgets(
    parts: VarianceComponents,
    difference: float,
    *,
    methods: int,
    classes: int,
    search_luck: Mapping[int, float],
    folds: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> list[Budget]:
    """Return the cheapest mix of searches, trials and reruns for some numbers of classes, cheapest first.

    Args:
        parts: Variance components, with the recorded number of trials.
        difference: Difference to detect, as a fraction.
        methods: Number of methods to compare.
        classes: Number of classes of the test set; multiples of it are planned too.
        search_luck: Variance of a search by its number of trials, relative to the recorded number.
        folds: Runs per trial and per rerun.
        power: Probability of detecting the difference.
        alpha: Probability of any false difference.

    Example:
        >>> parts = VarianceComponents(classes=9e-4, seeds=2e-5, search=4e-5, residual=0.0)
        >>> plans = plan_budgets(parts, 0.01, methods=5, classes=100, search_luck={10: 1.5, 20: 1.0})
        >>> [(plan.classes, plan.repeats, plan.trials, plan.reruns) for plan in plans]
        [(800, 12, 10, 3), (400, 15, 10, 2), (200, 24, 10, 2)]
    """
    found: list[Budget] = []
    for multiple in MORE_CLASSES:
        plans = []
        for trials, luck in search_luck.items():
            scaled = parts if parts.search is None else replace(parts, search=parts.search * luck)
            plan = cheapest_budget(
                scaled,
                difference,
                methods=methods,
                classes=multiple * classes,
                trials=trials,
                power=power,
                alpha=alpha,
            )
            if plan is not None:
                plans.append(replace(plan, runs=plan.repeats * (trials + plan.reruns) * folds))
        cheapest = min(plans, key=lambda plan: plan.runs, default=None)
        if cheapest is not None and all(cheapest.runs < plan.runs for plan in found):
            found.append(cheapest)  # more classes must save something
    return sorted(found, key=lambda plan: (plan.runs, plan.classes))


def _over_replicates(scores: Array) -> float:
    """Return the mean variance of paired differences over replicates (M x U, or centered M x S x R)."""
    flat = scores.reshape(len(scores), -1)
    if len(flat) == 1:
        return 2 * float(variance_over(flat)[0][0])
    i, j = np.triu_indices(len(flat), 1)
    variances, df = variance_over(flat[i] - flat[j])
    if df.sum() == 0:
        variances, df = variance_over(flat)
        return 2 * float(np.average(variances, weights=df))
    return float(np.average(variances, weights=df))


def _mean_difference_variance(covariance: Array, trained: NDArray[np.bool_]) -> float:
    """Return the mean variance of differences over all pairs; twice its own variance for a single method."""
    chosen = covariance[:-1, :-1][np.ix_(trained, trained)]
    if len(chosen) == 1:
        return 2 * float(chosen[0, 0])
    shared = (chosen.sum() - np.trace(chosen)) / (len(chosen) * (len(chosen) - 1))
    return max(2 * float(np.trace(chosen) / len(chosen) - shared), 0.0)


def _t_quantile(score: float, df: Array) -> Array:
    """Return the t-statistics (P) with the same tail probability as a standard normal ``score``."""
    tail = stdtr(np.inf, -score)
    quantile: Array = -stdtrit(df, np.full_like(df, tail))
    return quantile
