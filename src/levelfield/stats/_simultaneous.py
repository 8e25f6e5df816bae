"""Many differences, one error rate: the largest of all of them under "no difference", step by step.

After Westfall and Young, and Romano and Wolf: the differences of all pairs are strongly related, so the
largest of them is smaller than Bonferroni or Holm must assume.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from levelfield.stats._noise import Index, of_pairs
from levelfield.stats._table import Array

CHUNK = 2_000  # draws at once: 30 methods then take 7 MB


def normal_scores(statistics: Array, df: Array) -> Array:
    """The standard normal value that is as unlikely as each t-statistic (P) with its ``df`` (P)."""
    tail = np.maximum(stdtr(df, -np.abs(statistics)), 1e-300)
    scores: Array = -ndtri(tail)
    return scores


def t_quantile(score: float, df: Array) -> Array:
    """The t-statistic (P) that is as unlikely as a standard normal ``score``."""
    tail = stdtr(np.inf, -score)
    quantile: Array = -stdtrit(df, np.full_like(df, tail))
    return quantile


def step_down(
    scores: Array, covariance: Array, first: Index, second: Index, *, alpha: float, draws: int, seed: int
) -> tuple[Array, float]:
    """Adjusted p-values (P) of |normal scores| (P), and the one critical value for simultaneous intervals.

    Args:
        scores: Normal scores of the pairs' differences.
        covariance: Of the methods' means (M x M).
        first: Index of one method of each pair.
        second: Index of the other.
        alpha: Chance that any of the pairs exceeds the critical value where no two methods differ.
        draws: Random experiments without differences.
        seed: Of them.

    Example:
        >>> pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
        >>> scores = np.array([3.0, 2.2, 0.5])
        >>> p, critical = step_down(scores, np.eye(3), *pairs, alpha=0.05, draws=20_000, seed=0)
        >>> p.round(2).tolist(), round(critical, 2)  # Tukey's critical value: 2.34
        ([0.01, 0.05, 0.61], 2.34)
    """
    if len(scores) == 1:
        alone = np.asarray(2 * stdtr(np.inf, -scores), dtype=np.float64)
        return alone, float(-ndtri(alpha / 2))
    order = np.argsort(-scores, kind="stable")
    first, second, sorted_scores = first[order], second[order], scores[order]
    diagonal = np.diag(covariance)
    variance = of_pairs(covariance, first, second)
    # two methods of the same values never differ; what rounding leaves of them must not be blown up
    varies = variance > 1e-12 * (diagonal[first] + diagonal[second])
    scale = np.where(varies, 1 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
    root = _root(covariance)
    generator = np.random.default_rng(seed)
    exceeded = np.zeros(len(scores))
    largest = np.empty(draws)
    for start in range(0, draws, CHUNK):
        size = min(CHUNK, draws - start)
        means = root @ generator.standard_normal((len(root), size))
        drawn = np.abs(means[first] - means[second]) * scale[:, None]
        # the largest of this pair and all that are less clear
        running = np.maximum.accumulate(drawn[::-1], axis=0)[::-1]
        exceeded += (running >= sorted_scores[:, None]).sum(axis=1)
        largest[start : start + size] = running[0]
    p_sorted = np.maximum.accumulate((exceeded + 1) / (draws + 1))
    adjusted = np.empty_like(p_sorted)
    adjusted[order] = np.minimum(p_sorted, 1.0)
    return adjusted, float(np.quantile(largest, 1 - alpha))


def _root(covariance: Array) -> Array:
    """The one symmetric matrix whose square is the covariance, which may be singular.

    Other roots depend on the signs of eigenvectors, which differ from one linear algebra library to the next.
    """
    values, vectors = np.linalg.eigh(covariance)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
