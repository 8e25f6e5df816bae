"""The scores of several methods on one test set, brought into the form that the verdicts need.

What is drawn anew when an experiment is repeated: the classes that are tested, and the seeds of a rerun.
With several searches per method the search is drawn anew too; then a whole search with its reruns is one
replicate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from levelfield.errors import UsageError, did_you_mean

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of M methods in U replicates on C classes; make it with ``score_table`` or ``rerun_table``.

    A replicate is a rerun, or a whole search with its reruns where a method was searched more than once.
    Replicates of the same number share their seeds across methods; no two of one method share any.

    Attributes:
        methods: Their names (M).
        runs: Score of each rerun of each search (M x S x R); NaN where there is none.
        pulls: By how much each class lifts a replicate's score above its mean (M x U x C), summing to 0 over
            classes; 0 where there is no replicate. None for a measure that has no value per query.
        shares: What share of the queries each class holds (C), or None.
        fixed: Which methods would score the same every time, such as a pretrained network (M).
    """

    methods: tuple[str, ...]
    runs: Array
    pulls: Array | None
    shares: Array | None
    fixed: NDArray[np.bool_]

    @property
    def repeats(self) -> int:
        """The largest number of searches of any method."""
        return int(self.runs.shape[1])

    @property
    def scores(self) -> Array:
        """The score of each replicate (M x U); NaN where there is none."""
        return _replicates(self.runs[..., None])[..., 0]

    @property
    def means(self) -> Array:
        """The score of each method (M): the mean of its replicates."""
        means: Array = np.nanmean(self.scores, axis=1)
        return means

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many replicates each method has (M)."""
        counts: NDArray[np.int64] = np.isfinite(self.scores).sum(axis=1)
        return counts

    def take(self, order: NDArray[np.intp]) -> ScoreTable:
        """The same methods in another order."""
        return ScoreTable(
            methods=tuple(self.methods[k] for k in order),
            runs=self.runs[order],
            pulls=None if self.pulls is None else self.pulls[order],
            shares=self.shares,
            fixed=self.fixed[order],
        )


def score_table(
    values: Mapping[str, ArrayLike],
    *,
    classes: Sequence[object] | NDArray[np.generic] | None,
    fixed: Collection[str] = (),
) -> ScoreTable:
    """A table from the value of every query.

    Args:
        values: By method: values (R x Q) of Q queries in R reruns, or (S x R x Q) with S searches; higher is
            better. A failed rerun is a row of NaN. A query that is NaN in any other row is left out for all.
        classes: The class of each query (Q). None treats every query as a class of its own, which is right
            only if queries of one class are no more alike than others.
        fixed: Methods that would score the same every time.

    Example:
        >>> values = {"a": [[1.0, 0.0, 0.5]], "b": [[0.5, 0.0, 0.5]]}
        >>> table = score_table(values, classes=["cat", "cat", "dog"])
        >>> table.means.round(2).tolist(), table.shares.round(2).tolist()
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
        raise UsageError("no query was scored by every method and rerun; judge the reruns' scores instead")
    names, member = np.unique(labels[kept], return_inverse=True)
    sizes = np.bincount(member)
    sums = np.zeros((*arrays.shape[:3], len(names)))
    for index in zip(*np.nonzero(there), strict=True):
        sums[index] = np.bincount(member, weights=arrays[index][kept], minlength=len(names))
    shares = sizes / sizes.sum()
    runs = np.where(there, sums.sum(axis=3) / sizes.sum(), np.nan)
    pulls = sums / sizes.sum() - shares * np.nan_to_num(runs)[..., None]
    per_replicate = _replicates(np.where(there[..., None], pulls, np.nan))
    return _table(values, runs, np.nan_to_num(per_replicate) if len(names) > 1 else None, shares, fixed)


def rerun_table(scores: Mapping[str, ArrayLike], *, fixed: Collection[str] = ()) -> ScoreTable:
    """A table of a measure that has no value per query: only reruns speak.

    Args:
        scores: By method: scores (R) of its reruns, or (S x R) with S searches; NaN where a rerun failed.
        fixed: Methods that would score the same every time.

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
    pulls: Array | None,
    shares: Array | None,
    fixed: Collection[str],
) -> ScoreTable:
    for name, own in zip(methods, runs, strict=True):
        if not np.isfinite(own).any():
            raise UsageError(f'"{name}" has no scored rerun; leave it out of the comparison')
    return ScoreTable(tuple(methods), runs, pulls, shares, np.array([name in fixed for name in methods]))


def _stacked(values: Mapping[str, ArrayLike], ndim: int, wanted: str) -> Array:
    """One array for all methods, NaN where a method has fewer searches or reruns than another."""
    if not values:
        raise UsageError("a table of scores needs at least one method")
    arrays = {name: np.asarray(array, dtype=np.float64) for name, array in values.items()}
    arrays = {name: array[None] if array.ndim == ndim - 1 else array for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.ndim != ndim or 0 in array.shape:
            raise UsageError(f'scores of "{name}" must have shape {wanted}, got {array.shape}')
        if np.isinf(array).any():
            raise UsageError(f'scores of "{name}" hold infinity; leave failed reruns out')
    if ndim == 3 and len({array.shape[2] for array in arrays.values()}) > 1:
        counts = ", ".join(f"{name} {array.shape[2]}" for name, array in arrays.items())
        raise UsageError(f"methods were asked different numbers of queries: {counts}")
    shape = np.max([array.shape for array in arrays.values()], axis=0)
    stacked = np.full((len(arrays), *shape), np.nan)
    for row, array in zip(stacked, arrays.values(), strict=True):
        row[tuple(slice(size) for size in array.shape)] = array
    return stacked


def _check_fixed(fixed: Collection[str], methods: Mapping[str, ArrayLike]) -> None:
    for name in fixed:
        if name not in methods:
            raise UsageError(f'there is no method "{name}" that could be fixed{did_you_mean(name, methods)}')


def _replicates(runs: Array) -> Array:
    """Reruns (M x S x R x C) by replicate (M x U x C): themselves, or their mean in each search."""
    if runs.shape[1] == 1:
        return runs[:, 0]
    there = np.isfinite(runs)
    count = there.sum(axis=2)
    total = np.where(there, runs, 0.0).sum(axis=2)
    means: Array = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return means
