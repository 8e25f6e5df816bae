"""How sure a difference of two methods is: the chance in its classes and the chance in its reruns, paired.

A score is a mean over a crossed design, classes x replicates. A difference of two methods has the variance

    classes + replicates - what both count twice,

where each term comes from *paired* differences: class by class, and replicate by replicate with shared seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.stats._moderate import moderated
from levelfield.stats._table import Array, ScoreTable

Index = NDArray[np.int64]
FEW_CLASSES = 80  # degrees of freedom; with more, a variance over classes is sure enough by itself


@dataclass(frozen=True)
class Noise:
    """Squared standard errors of P differences.

    Attributes:
        classes: What the choice of classes adds (P); None where there are no values per query.
        replicates: What reruns or searches add on top (P); None where no method has two.
        variance: Both together (P); NaN where a difference has no source of chance at all.
        df: Degrees of freedom of ``variance`` (P).
    """

    classes: Array | None
    replicates: Array | None
    variance: Array
    df: Array


def difference_noise(table: ScoreTable, first: Index, second: Index) -> Noise:
    """The noise of ``means[first] - means[second]`` (P pairs of indices).

    Index M, one beyond the methods, stands for the number 0: the noise is then that of a single mean.

    Example:
        >>> from levelfield.stats import score_table
        >>> values = {"a": [[0.5, 0.7, 0.9], [0.6, 0.8, 0.7]], "b": [[0.4, 0.7, 0.6], [0.5, 0.7, 0.7]]}
        >>> noise = difference_noise(score_table(values, classes=[0, 1, 2]), np.array([0]), np.array([1]))
        >>> noise.variance.round(5).tolist(), noise.df.round(1).tolist()
        ([0.00083], [2.0])
    """
    class_variance = class_df = None
    if table.pulls is not None and table.shares is not None:
        covariance = class_covariance(table)
        class_variance = of_pairs(covariance, first, second)
        class_df = _class_df(table.shares)
        if class_df < FEW_CLASSES and len(first) > 1:  # few classes may agree by luck, as few reruns may
            class_variance, _ = moderated(
                class_variance, np.full(len(first), class_df), pooled_df=len(first) * class_df
            )
    found = _replicate_variance(table, first, second)
    if found is None or class_variance is None or class_df is None:
        return _one_source(class_variance, class_df, found, len(first))
    gross, df, per_replicate = found
    twice = of_pairs(residual_covariance(table), first, second) * per_replicate
    net = np.maximum(gross - twice, 0.0)
    # Few replicates, or classes, may agree by luck and then hide how few they are; so their weight in the
    # degrees of freedom is raised. docs/statistics.md shows what this is worth.
    weighed = np.where(net > 0, gross, 0.0) * (1 + 4 / np.maximum(df, 1.0))
    weighed_classes = class_variance * (1 + 4 / class_df)
    total = weighed_classes + weighed
    spread = weighed_classes**2 / class_df + weighed**2 / np.maximum(df, 1.0)
    joint_df = np.divide(total**2, spread, out=np.full_like(total, class_df), where=spread > 0)
    return Noise(class_variance, net, class_variance + net, joint_df)


def class_covariance(table: ScoreTable) -> Array:
    """Covariance of the methods' means over the choice of classes (M+1 x M+1); 0 for the number 0.

    Each class counts by its pull on the mean, enlarged by 1 / (1 - share) since the mean follows large
    classes (Bell and McCaffrey's correction; for classes of one size the usual C / (C - 1)). Where one class
    holds most of the queries that is not enough, and all is enlarged.
    """
    assert table.pulls is not None and table.shares is not None
    means = table.pulls.sum(axis=1) / table.counts[:, None]
    return _with_zero((means / (1 - table.shares)) @ means.T) * _dominance(table.shares)


def _dominance(shares: Array) -> float:
    """By how much the variance over classes comes out too small where classes differ as wholes; 1 or more.

    The mean follows a class that holds most of the queries, so that this class hardly deviates from it.

    Example:
        >>> [round(_dominance(np.array(shares)), 2) for shares in ([0.25] * 4, [0.9, 0.05, 0.05])]
        [1.0, 6.24]
    """
    square = float((shares**2).sum())
    expected = float((shares**2 * (1 - 2 * shares + square) / (1 - shares)).sum())
    return max(square / expected, 1.0)


def residual_covariance(table: ScoreTable) -> Array:
    """Covariance of one replicate's score that comes from its classes moving on their own (M+1 x M+1)."""
    assert table.pulls is not None and table.shares is not None
    there = np.isfinite(table.scores)
    means = table.pulls.sum(axis=1) / table.counts[:, None]
    moves = (table.pulls - means[:, None]) * there[..., None]
    enlarged = (moves / (1 - table.shares)).reshape(len(moves), -1)
    common = there.astype(np.float64) @ there.T
    covariance = enlarged @ moves.reshape(len(moves), -1).T / np.maximum(common - 1, 1)
    covariance[table.fixed] = 0.0
    covariance[:, table.fixed] = 0.0
    return _with_zero(covariance)


def _replicate_variance(table: ScoreTable, first: Index, second: Index) -> tuple[Array, Array, Array] | None:
    """Squared standard errors over replicates (P), their degrees of freedom, and the share of one replicate.

    Pairs of two trained methods learn from each other how variable a difference is; so do, apart from them,
    trained methods against something fixed. None where no method has two replicates.
    """
    scores = np.vstack([table.scores, np.zeros((1, table.scores.shape[1]))])
    fixed = np.append(table.fixed, True)
    scores[fixed] = np.nanmean(scores[fixed], axis=1, keepdims=True)
    trained = np.nonzero(~fixed)[0]
    counts = np.isfinite(scores).sum(axis=1)
    if not len(trained) or counts[trained].max() < 2:
        return None
    alone, alone_df = variance_over(scores[trained])
    i, j = np.triu_indices(len(trained), 1)
    between, between_df = variance_over(scores[trained[i]] - scores[trained[j]])
    largest = counts[trained].max() - 1.0
    total_df = float((counts[trained] - 1.0).sum())
    # shared seeds: the part of a rerun's variance that all methods have in common
    typical = float(np.average(alone, weights=alone_df))
    shared = 0.0
    if between_df.sum() > 0:
        shared = min(max(typical - float(np.average(between, weights=between_df)) / 2, 0.0), typical)
    correlation = shared / typical if typical > 0 else 0.0
    alone_pooled = max(largest, total_df / (1 + (len(trained) - 1) * correlation**2))
    alone, alone_df = moderated(alone, alone_df, pooled_df=alone_pooled)
    if between_df.sum() > 0:
        between, between_df = moderated(between, between_df, pooled_df=max(total_df - largest, 1.0))
    else:  # no two methods share two replicates: their variances add
        between, between_df = alone[i] + alone[j], np.minimum(alone_df[i], alone_df[j])

    size = len(fixed)
    variance, df = np.zeros((size, size)), np.full((size, size), np.inf)
    rows, columns = trained[i], trained[j]
    variance[rows, columns] = variance[columns, rows] = between
    df[rows, columns] = df[columns, rows] = between_df
    still = np.nonzero(fixed)[0]
    variance[np.ix_(trained, still)], df[np.ix_(trained, still)] = alone[:, None], alone_df[:, None]
    variance[np.ix_(still, trained)], df[np.ix_(still, trained)] = alone, alone_df

    a, b = (
        np.where(fixed[first], counts[second], counts[first]),
        np.where(fixed[second], counts[first], counts[second]),
    )
    there = np.isfinite(scores)
    common = np.where(fixed[first] | fixed[second], a, (there[first] & there[second]).sum(axis=1))
    per_replicate = (1 / a + 1 / b) / 2
    # what the seeds share cancels in a difference only as far as both methods ran with the same seeds
    uncancelled = 2 * shared * np.maximum(per_replicate - common / (a * b), 0.0)
    return variance[first, second] * per_replicate + uncancelled, df[first, second], per_replicate


def variance_over(values: Array) -> tuple[Array, Array]:
    """Variance of each row (n x U) over what is not NaN, and its ``df``; 0 and 0 where unknown."""
    there = np.isfinite(values)
    count = there.sum(axis=1)
    filled = np.where(there, values, 0.0)
    mean = filled.sum(axis=1) / np.maximum(count, 1)
    squares = (np.where(there, values - mean[:, None], 0.0) ** 2).sum(axis=1)
    return squares / np.maximum(count - 1, 1), np.maximum(count - 1.0, 0.0)


def _one_source(
    classes: Array | None, class_df: float | None, found: tuple[Array, Array, Array] | None, size: int
) -> Noise:
    if classes is not None and class_df is not None:
        return Noise(classes, None, classes, np.full(size, class_df))
    if found is None:
        return Noise(None, None, np.full(size, np.nan), np.full(size, np.nan))
    variance, df, _ = found
    fixed = np.isinf(df)  # two methods that never change, and no queries to compare them by
    return Noise(None, variance, np.where(fixed, np.nan, variance), np.where(fixed, np.nan, df))


def of_pairs(covariance: Array, first: Index, second: Index) -> Array:
    """The variance of each difference (P) from the covariance of what is subtracted."""
    diagonal = np.diag(covariance)
    found: Array = np.maximum(diagonal[first] + diagonal[second] - 2 * covariance[first, second], 0.0)
    return found


def _with_zero(covariance: Array) -> Array:
    return np.pad(covariance, ((0, 1), (0, 1)))


def _class_df(shares: Array) -> float:
    """Degrees of freedom of the variance over classes; C - 1 for classes of one size (Bell and McCaffrey)."""
    weight = shares**2 / (1 - shares)
    square = float((shares**2).sum())
    mean = float((weight * (1 - 2 * shares + square)).sum())
    zero, one, two = (float((weight * shares**power).sum()) for power in range(3))
    crossed = square**2 * zero**2 - 4 * square * zero * one + 2 * zero * two + 2 * one**2
    same = float((weight**2 * ((1 - 2 * shares + square) ** 2 - (square - 2 * shares) ** 2)).sum())
    return mean**2 / (crossed + same)
