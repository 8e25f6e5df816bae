"""Exact search: comparison with every row."""

from __future__ import annotations

import numpy as np

from levelfield.retrieval.index._largest import nearest_in_block
from levelfield.retrieval.index._vectors import Floats, Rows, Vectors

BLOCK_ROWS = 1 << 17
GATHER_BYTES = 64 << 20  # copied rows of a narrow filter
DENSE = 8  # a filter that selects more than 1 / DENSE of the rows masks the others instead of copying its own
NONE = np.empty(0, dtype=np.int64)


def search_exactly(
    vectors: Vectors,
    queries: Floats,
    count: int,
    *,
    first: int = 0,
    removed: Rows | None = None,
) -> tuple[Rows, Floats]:
    """Return the ``count`` most similar rows of every query, and their similarities.

    Args:
        vectors: Vectors to search in.
        queries: Unit vectors, Q x D.
        count: Number k of results. If fewer rows are left, the rest is -1 with similarity -inf.
        first: Earlier rows are skipped.
        removed: Rows to exclude, in ascending order.

    Returns:
        Rows and similarities, both Q x k, most similar first; ties in row order.
    """
    found = _Found(len(queries), count)
    removed = NONE if removed is None else removed
    for start, shard in vectors.shards(first):
        for at in range(0, len(shard), BLOCK_ROWS):
            part = shard[at : at + BLOCK_ROWS]
            low, high = np.searchsorted(removed, [start + at, start + at + len(part)])
            found.search(part, queries, gone=removed[low:high] - start - at, first=start + at)
    return found.rows, found.values


def search_rows(vectors: Vectors, queries: Floats, count: int, among: Rows) -> tuple[Rows, Floats]:
    """Return the ``count`` most similar of some rows for every query, and their similarities.

    Of a narrow filter only these rows are read, so it is fast.

    Args:
        vectors: Vectors to search in.
        queries: Unit vectors, Q x D.
        count: Number k of results; limited to the number of rows.
        among: Rows to search, in ascending order.

    Returns:
        Rows and similarities, both Q x k, most similar first; ties in row order.
    """
    count = min(count, len(among))
    if len(among) * DENSE > vectors.count:
        others = np.ones(vectors.count, dtype=bool)
        others[among] = False
        return search_exactly(vectors, queries, count, removed=np.flatnonzero(others))
    found = _Found(len(queries), count)
    height = max(1, GATHER_BYTES // (4 * vectors.size))
    for start in range(0, len(among), height):
        numbers = among[start : start + height]
        found.search(vectors.take(numbers), queries, numbers=numbers)
    return found.rows, found.values


class _Found:
    """Best rows so far of Q queries, and their similarities, both Q x count; -1 and -inf for none."""

    def __init__(self, queries: int, count: int) -> None:
        self._count = count
        self._first = True
        self.rows: Rows = np.full((queries, count), -1, dtype=np.int64)
        self.values: Floats = np.full((queries, count), -np.inf, dtype=np.float32)

    def search(
        self, part: Floats, queries: Floats, *, gone: Rows = NONE, first: int = 0, numbers: Rows | None = None
    ) -> None:
        """Search one more block of rows.

        Args:
            part: Rows (N x D).
            queries: Unit vectors, Q x D.
            gone: Rows of the block to exclude, in ascending order.
            first: Number of the first row of the block.
            numbers: Numbers of its rows, if they are not consecutive.
        """
        count = min(self._count, len(part))
        if not count or not len(queries):
            return
        places, values = nearest_in_block(part, queries, count, gone)
        rows = places + first if numbers is None else numbers[places]
        rows[~np.isfinite(values)] = -1
        if self._first and count == self._count:
            self.rows, self.values = rows, values
        else:
            self.rows, self.values = merge_results(self.rows, self.values, rows, values, self._count)
        self._first = False


def merge_results(
    rows: Rows, values: Floats, more_rows: Rows, more_values: Floats, count: int
) -> tuple[Rows, Floats]:
    """Merge two results (rows and similarities, both Q x n) and keep the ``count`` most similar rows.

    Example:
        >>> one, two = np.array([[4]]), np.array([[7]])
        >>> merge_results(one, np.array([[0.5]]), two, np.array([[0.9]]), 1)[0].tolist()
        [[7]]
    """
    together = np.concatenate([values, more_values], 1)
    order = np.argsort(-together, axis=1, kind="stable")[:, :count]
    every = np.concatenate([rows, more_rows], 1)
    return np.take_along_axis(every, order, 1), np.take_along_axis(together, order, 1)
