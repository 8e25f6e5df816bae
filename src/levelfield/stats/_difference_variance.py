"""Variance of the difference of two methods, from the choice of classes and from reruns, paired.

A score is a mean over a crossed design, classes x replicates. A difference of two methods has the variance

    classes + replicates - (their overlap, which both terms contain),

where each term comes from *paired* differences: class by class, and replicate by replicate with shared seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.stats._moderate import moderate_variances, prior_variance
from levelfield.stats._table import Array, ScoreTable

Index = NDArray[np.int64]
FEW_CLASSES = 80  # degrees of freedom; with more, a variance over classes needs no moderation


@dataclass(frozen=True)
class DifferenceVariance:
    """Squared standard errors of P differences.

    Attributes:
        classes: Part from the choice of classes (P); None without values per query.
        replicates: Part added by reruns or searches (P); None if no method has two.
        variance: Sum of both parts (P); NaN if neither is known.
        df: Degrees of freedom of ``variance`` (P).
    """

    classes: Array | None
    replicates: Array | None
    variance: Array
    df: Array


def difference_variance(table: ScoreTable, first: Index, second: Index) -> DifferenceVariance:
    """Return the variances of ``means[first] - means[second]`` (P pairs of indices).

    Index M, one beyond the methods, stands for the constant 0; the variance is then that of a single mean.

    Example:
        >>> from levelfield.stats import score_table
        >>> values = {"a": [[0.5, 0.7, 0.9], [0.6, 0.8, 0.7]], "b": [[0.4, 0.7, 0.6], [0.5, 0.7, 0.7]]}
        >>> found = difference_variance(score_table(values, classes=[0, 1, 2]), np.array([0]), np.array([1]))
        >>> found.variance.round(5).tolist(), found.df.round(1).tolist()
        ([0.00083], [2.0])
    """
    class_variance = class_df = None
    if table.class_effects is not None and table.class_shares is not None:
        covariance = class_covariance(table)
        class_variance = pair_variances(covariance, first, second)
        class_df = _class_df(table.class_shares)
        if class_df < FEW_CLASSES and len(first) > 1:  # few classes may agree by luck, like few reruns
            class_variance, _ = moderate_variances(
                class_variance, np.full(len(first), class_df), pooled_df=len(first) * class_df
            )
    found = _replicate_variance(table, first, second)
    if found is None or class_variance is None or class_df is None:
        return _single_source(class_variance, class_df, found, len(first))
    gross, df, per_replicate = found
    overlap = pair_variances(residual_covariance(table), first, second) * per_replicate
    net = np.maximum(gross - overlap, 0.0)
    # Few replicates or classes may agree by luck, which would hide how few they are. So their weight in the
    # degrees of freedom is inflated; docs/statistics.md shows the effect.
    inflated = np.where(net > 0, gross, 0.0) * (1 + 4 / np.maximum(df, 1.0))
    inflated_classes = class_variance * (1 + 4 / class_df)
    total = inflated_classes + inflated
    spread = inflated_classes**2 / class_df + inflated**2 / np.maximum(df, 1.0)
    joint_df = np.divide(total**2, spread, out=np.full_like(total, class_df), where=spread > 0)
    return DifferenceVariance(class_variance, net, class_variance + net, joint_df)


def class_covariance(table: ScoreTable) -> Array:
    """Return the covariance of the methods' means over the choice of classes (M+1 x M+1); the last row is 0.

    The effect of each class on the mean is enlarged by 1 / (1 - share), because the mean follows large
    classes (Bell and McCaffrey's correction; C / (C - 1) for classes of one size). If one class holds most of
    the queries this is not enough, and a further factor applies to all.
    """
    assert table.class_effects is not None and table.class_shares is not None
    means = table.class_effects.sum(axis=1) / table.counts[:, None]
    return _with_zero((means / (1 - table.class_shares)) @ means.T) * _large_class_factor(table.class_shares)


def method_class_covariance(table: ScoreTable) -> tuple[Array, float]:
    """Return the covariance over classes (M x M), without what all methods share, and its degrees of freedom.

    Few classes may agree by luck, like few reruns. Their covariance is drawn toward that of equally sensitive
    methods, the more the more alike the variances of the pairs are.
    """
    assert table.class_shares is not None
    size = len(table.methods)
    covariance = class_covariance(table)[:size, :size]
    covariance = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()
    df = _class_df(table.class_shares)
    if size < 3 or df >= FEW_CLASSES:
        return covariance, df
    first, second = np.triu_indices(size, 1)
    own = pair_variances(covariance, first, second)
    if not own.max() > 0:
        return covariance, df
    least = max(
        1e-5 * float(np.median(own)), 1e-10 * float(own.max())
    )  # most methods may agree on all classes
    typical, prior_df = prior_variance(np.maximum(own, least), np.full(len(own), df))
    weight = 1.0 if math.isinf(prior_df) else prior_df / (prior_df + df)
    alike = typical / 2 * (np.eye(size) - 1 / size)
    return (1 - weight) * covariance + weight * alike, min(prior_df + df, (size - 1) * df)


def _large_class_factor(class_shares: Array) -> float:
    """Return the factor, at least 1, by which a dominant class makes the variance over classes too small.

    The mean follows a class that holds most of the queries, so this class hardly deviates from the mean.

    Example:
        >>> [round(_large_class_factor(np.array(each)), 2) for each in ([0.25] * 4, [0.9, 0.05, 0.05])]
        [1.0, 6.24]
    """
    square = float((class_shares**2).sum())
    expected = float((class_shares**2 * (1 - 2 * class_shares + square) / (1 - class_shares)).sum())
    return max(square / expected, 1.0)


def residual_covariance(table: ScoreTable) -> Array:
    """Return the covariance of one replicate's score from the class-by-replicate interaction (M+1 x M+1)."""
    assert table.class_effects is not None and table.class_shares is not None
    there = np.isfinite(table.scores)
    means = table.class_effects.sum(axis=1) / table.counts[:, None]
    moves = (table.class_effects - means[:, None]) * there[..., None]
    enlarged = (moves / (1 - table.class_shares)).reshape(len(moves), -1)
    common = there.astype(np.float64) @ there.T
    covariance = enlarged @ moves.reshape(len(moves), -1).T / np.maximum(common - 1, 1)
    covariance[table.fixed] = 0.0
    covariance[:, table.fixed] = 0.0
    return _with_zero(covariance)


def _replicate_variance(table: ScoreTable, first: Index, second: Index) -> tuple[Array, Array, Array] | None:
    """Return squared standard errors over replicates (P), degrees of freedom, and one replicate's weight.

    Variances are moderated in two groups: pairs of trained methods, and trained methods against fixed ones.
    The result is None if no method has two replicates.
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
    # the part of a rerun's variance that methods share through equal seeds
    typical = float(np.average(alone, weights=alone_df))
    shared = 0.0
    if between_df.sum() > 0:
        shared = min(max(typical - float(np.average(between, weights=between_df)) / 2, 0.0), typical)
    correlation = shared / typical if typical > 0 else 0.0
    alone_pooled = max(largest, total_df / (1 + (len(trained) - 1) * correlation**2))
    alone, alone_df = moderate_variances(alone, alone_df, pooled_df=alone_pooled)
    if between_df.sum() > 0:
        between, between_df = moderate_variances(between, between_df, pooled_df=max(total_df - largest, 1.0))
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
    # the shared part cancels only in replicates that both methods have
    uncanceled = 2 * shared * np.maximum(per_replicate - common / (a * b), 0.0)
    return variance[first, second] * per_replicate + uncanceled, df[first, second], per_replicate


def variance_over(values: Array) -> tuple[Array, Array]:
    """Return variance and degrees of freedom of each row (n x U), ignoring NaN; 0 and 0 if unknown."""
    there = np.isfinite(values)
    count = there.sum(axis=1)
    filled = np.where(there, values, 0.0)
    mean = filled.sum(axis=1) / np.maximum(count, 1)
    squares = (np.where(there, values - mean[:, None], 0.0) ** 2).sum(axis=1)
    return squares / np.maximum(count - 1, 1), np.maximum(count - 1.0, 0.0)


def _single_source(
    classes: Array | None, class_df: float | None, found: tuple[Array, Array, Array] | None, size: int
) -> DifferenceVariance:
    if classes is not None and class_df is not None:
        return DifferenceVariance(classes, None, classes, np.full(size, class_df))
    if found is None:
        return DifferenceVariance(None, None, np.full(size, np.nan), np.full(size, np.nan))
    variance, df, _ = found
    fixed = np.isinf(df)  # two fixed methods without values per query
    return DifferenceVariance(None, variance, np.where(fixed, np.nan, variance), np.where(fixed, np.nan, df))


def pair_variances(covariance: Array, first: Index, second: Index) -> Array:
    """Return the variance of each difference (P) from the covariance of the methods."""
    diagonal = np.diag(covariance)
    found: Array = np.maximum(diagonal[first] + diagonal[second] - 2 * covariance[first, second], 0.0)
    return found


def _with_zero(covariance: Array) -> Array:
    return np.pad(covariance, ((0, 1), (0, 1)))


def _class_df(class_shares: Array) -> float:
    """Return the degrees of freedom over classes; C - 1 for equal classes (Bell and McCaffrey)."""
    weight = class_shares**2 / (1 - class_shares)
    square = float((class_shares**2).sum())
    mean = float((weight * (1 - 2 * class_shares + square)).sum())
    zero, one, two = (float((weight * class_shares**power).sum()) for power in range(3))
    crossed = square**2 * zero**2 - 4 * square * zero * one + 2 * zero * two + 2 * one**2
    same = float(
        (weight**2 * ((1 - 2 * class_shares + square) ** 2 - (square - 2 * class_shares) ** 2)).sum()
    )
    return mean**2 / (crossed + same)
