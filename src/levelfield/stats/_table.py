"""Table of the scores of several methods on one test set, the input of the verdicts.

Two things are random when an experiment is repeated: the test classes and the seeds of a rerun. With several
searches per method the search is random too; a search with all its reruns is then one replicate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelfield.core.errors import UsageError, did_you_mean

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of M methods in U replicates on C classes; create it with ``score_table`` or ``rerun_table``.

    A replicate is a rerun, or a search with its reruns if methods were searched more than once. Replicates
    with the same number have the same seeds in all methods.

    Attributes:
        methods: Names of the methods (M).
        runs: Score of each rerun of each search (M x S x R); NaN if missing.
        class_effects: Contribution of each class to a replicate's score, as a deviation (M x U x C); the sum
            over classes is 0. 0 for missing replicates. None for a metric without values per query.
        class_shares: Share of the queries in each class (C), or None.
        fixed: True for methods that score the same every time, such as a pretrained network (M).
    """

    methods: tuple[str, ...]
    runs: Array
    class_effects: Array | None
    class_shares: Array | None
    fixed: NDArray[np.bool_]

    @property
    def repeats(self) -> int:
        """The largest number of searches of any method."""
        return int(self.runs.shape[1])

    @property
    def scores(self) -> Array:
        """Score of each replicate (M x U); NaN if missing."""
        return _replicates(self.runs[..., None])[..., 0]

    @property
    def means(self) -> Array:
        """Score of each method (M): the mean of its replicates."""
        means: Array = np.nanmean(self.scores, axis=1)
        return means

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of replicates of each method (M)."""
        counts: NDArray[np.int64] = np.isfinite(self.scores).sum(axis=1)
        return counts

    def reorder(self, order: NDArray[np.intp]) -> ScoreTable:
        """Return the table with the methods in another order."""
        return ScoreTable(
            methods=tuple(self.methods[k] for k in order),
            runs=self.runs[order],
            class_effects=None if self.class_effects is None else self.class_effects[order],
            class_shares=self.class_shares,
            fixed=self.fixed[order],
        )


def score_table(
    values: Mapping[str, ArrayLike],
    *,
    classes: Sequence[object] | NDArray[np.generic] | None,
    fixed: Collection[str] = (),
) -> ScoreTable:
    """Return the table for a metric with a value per query.

    Args:
        values: Values by method: (R x Q) for Q queries in R reruns, or (S x R x Q) with S searches. Higher is
            better. A failed rerun is a row of NaN. A query that is NaN in any other row is left out for all.
        classes: Class of each query (Q). None treats every query as its own class, which is right only if
            queries of one class are no more alike than others.
        fixed: Names of methods that score the same every time.

    Example:
        >>> values = {"a": [[1.0, 0.0, 0.5]], "b": [[0.5, 0.0, 0.5]]}
        >>> table = score_table(values, classes=["cat", "cat", "dog"])
        >>> table.means.round(2).tolist(), table.class_shares.round(2).tolist()
        ([0.5, 0.33], [0.67, 0.33])
    """
    arrays = _stacked(values, 3, "(S x R x Q)")
    _check_fixed(fixed, values)
    there = np.isfinite(arrays).sum(axis=3) > 0
    kept = np.asarray(np.isfinite(arrays[there]).all(axis=0))
    labels = np.arange(arrays.shape[3]) if classes is None else np.asarray(classes)
    if len(labels) != arrays.shape[3]:
        raise UsageError(f"{len(labels)} classes for {arrays.shape[3]} queries; give one per query")
    if not kept.any():
        raise UsageError("no query was scored by every method and rerun; use rerun_table instead")
    names, member = np.unique(labels[kept], return_inverse=True)
    sizes = np.bincount(member)
    sums = np.zeros((*arrays.shape[:3], len(names)))
    for index in zip(*np.nonzero(there), strict=True):
        sums[index] = np.bincount(member, weights=arrays[index][kept], minlength=len(names))
    class_shares = sizes / sizes.sum()
    runs = np.where(there, sums.sum(axis=3) / sizes.sum(), np.nan)
    class_effects = sums / sizes.sum() - class_shares * np.nan_to_num(runs)[..., None]
    per_replicate = _replicates(np.where(there[..., None], class_effects, np.nan))
    return _table(values, runs, np.nan_to_num(per_replicate) if len(names) > 1 else None, class_shares, fixed)


def rerun_table(scores: Mapping[str, ArrayLike], *, fixed: Collection[str] = ()) -> ScoreTable:
    """Return the table for a metric without values per query, from the scores of reruns.

    Args:
        scores: Scores by method: (R) for R reruns, or (S x R) with S searches; NaN for a failed rerun.
        fixed: Names of methods that score the same every time.

    Example:
        >>> rerun_table({"a": [0.5, 0.6], "b": [0.4]}, fixed=["b"]).counts.tolist()
        [2, 1]
    """
    runs = _stacked(scores, 2, "(S x R)")
    _check_fixed(fixed, scores)
    return _table(scores, runs, None, None, fixed)


def _table(
    methods: Mapping[str, ArrayLike],
    runs: Array,
    class_effects: Array | None,
    class_shares: Array | None,
    fixed: Collection[str],
) -> ScoreTable:
    for name, own in zip(methods, runs, strict=True):
        if not np.isfinite(own).any():
            raise UsageError(f'"{name}" has no scored rerun; leave it out of the comparison')
    return ScoreTable(
        tuple(methods), runs, class_effects, class_shares, np.array([name in fixed for name in methods])
    )


def _stacked(values: Mapping[str, ArrayLike], ndim: int, wanted: str) -> Array:
    """Return one array for all methods, padded with NaN to the largest number of searches and reruns."""
    if not values:
        raise UsageError("a table of scores needs at least one method, got none")
    arrays = {name: np.asarray(array, dtype=np.float64) for name, array in values.items()}
    arrays = {name: array[None] if array.ndim == ndim - 1 else array for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.ndim != ndim or 0 in array.shape:
            raise UsageError(f'scores of "{name}" must have shape {wanted}, got {array.shape}')
        if np.isinf(array).any():
            raise UsageError(f'scores of "{name}" contain infinity; leave failed reruns out')
    if ndim == 3 and len({array.shape[2] for array in arrays.values()}) > 1:
        counts = ", ".join(f"{name} {array.shape[2]}" for name, array in arrays.items())
        raise UsageError(
            f"methods have different numbers of queries: {counts}; score all on the same queries"
        )
    shape = np.max([array.shape for array in arrays.values()], axis=0)
    stacked = np.full((len(arrays), *shape), np.nan)
    for row, array in zip(stacked, arrays.values(), strict=True):
        row[tuple(slice(size) for size in array.shape)] = array
    return stacked


def _check_fixed(fixed: Collection[str], methods: Mapping[str, ArrayLike]) -> None:
    for name in fixed:
        if name not in methods:
            raise UsageError(f'fixed: unknown method "{name}"{did_you_mean(name, methods)}')


def _replicates(runs: Array) -> Array:
    """Return reruns (M x S x R x C) by replicate (M x U x C): unchanged, or search means if S > 1."""
    if runs.shape[1] == 1:
        return runs[:, 0]
    there = np.isfinite(runs)
    count = there.sum(axis=2)
    total = np.where(there, runs, 0.0).sum(axis=2)
    means: Array = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return means
