"""Friedman's test over cases and Nemenyi's critical difference, after Demsar (JMLR 2006)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.stats._ranks import ranks, score_matrix


@dataclass(frozen=True)
class Friedman:
    """Friedman's test with Nemenyi's comparison of all pairs.

    Attributes:
        mean_ranks: Mean rank by method, best first.
        cases: Number of cases.
        statistic: Friedman's chi-squared, corrected for ties.
        p_value: p-value of "all methods rank equally", from the chi-squared distribution.
        f_statistic: Iman and Davenport's F, which is less conservative.
        f_p_value: p-value of ``f_statistic``.
        critical_difference: Smallest difference of mean ranks that is significant at ``alpha``.
        p_values: Nemenyi's p-value of each pair of methods.
        alpha: Significance level.
    """

    mean_ranks: Mapping[str, float]
    cases: int
    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float
    critical_difference: float
    p_values: Mapping[tuple[str, str], float]
    alpha: float

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The largest groups of methods without significant differences, best first."""
        methods = list(self.mean_ranks)
        found: list[tuple[str, ...]] = []
        reach = -1  # a group that ends no later than the previous one is contained in it
        for start, first in enumerate(methods):
            limit = self.mean_ranks[first] + self.critical_difference
            end = max(i for i, method in enumerate(methods) if self.mean_ranks[method] < limit)
            if end > start and end > reach:
                found.append(tuple(methods[start : end + 1]))
                reach = end
        return found


def friedman(cases: Mapping[str, Mapping[str, float]], *, alpha: float = 0.05) -> Friedman:
    """Test whether methods differ in their ranks over cases (datasets, networks); higher scores are better.

    Args:
        cases: Scores by case and method; at least two cases and three methods.
        alpha: Significance level of the critical difference.

    Example:
        >>> cases = {f"set {i}": {"a": 3.0 + i, "b": 2.0, "c": 1.0} for i in range(8)}
        >>> result = friedman(cases)
        >>> result.mean_ranks, result.p_value < 0.001, result.groups
        ({'a': 1.0, 'b': 2.0, 'c': 3.0}, True, [('a', 'b'), ('b', 'c')])
    """
    from scipy.stats import chi2, f, studentized_range

    methods, table = score_matrix(cases)
    n, k = table.shape
    if n < 2 or k < 3:
        raise UsageError(
            f"Friedman's test needs at least 2 cases and 3 methods, got {n} and {k}; "
            "compare two methods with judge"
        )
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, got {alpha}")
    ranked = ranks(table)
    means = ranked.mean(axis=0)
    # Sum of squares between methods over the variance of ranks within cases, which ties reduce.
    within = ((ranked - (k + 1) / 2) ** 2).sum() / (k - 1)
    between = n**2 * ((means - (k + 1) / 2) ** 2).sum()
    statistic = float(between / within) if within > 0 else 0.0
    spare = n * (k - 1) - statistic
    f_statistic = (n - 1) * statistic / spare if spare > 1e-12 else math.inf
    error = math.sqrt(k * (k + 1) / (6 * n))
    quantile = float(studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)
    order = np.argsort(means, kind="stable")
    pairs = {
        (methods[i], methods[j]): float(
            studentized_range.sf(abs(means[i] - means[j]) / error * math.sqrt(2), k, np.inf)
        )
        for i, j in combinations(order.tolist(), 2)
    }
    return Friedman(
        mean_ranks={methods[i]: float(means[i]) for i in order},
        cases=n,
        statistic=statistic,
        p_value=float(chi2.sf(statistic, k - 1)),
        f_statistic=f_statistic,
        f_p_value=float(f.sf(f_statistic, k - 1, (k - 1) * (n - 1))),
        critical_difference=quantile * error,
        p_values=pairs,
        alpha=alpha,
    )
