"""Exact search: compare with every row."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from levelfield.index._vectors import Floats, Rows, Vectors

BLOCK_BYTES = 64 << 20


def search_exactly(
    vectors: Vectors,
    queries: Floats,
    count: int,
    *,
    first: int = 0,
    removed: Rows | None = None,
) -> tuple[Rows, Floats]:
    """The ``count`` most similar rows of every query, and their similarities.

    Args:
        vectors: Where to search.
        queries: Unit vectors, Q x D.
        count: k; where fewer rows are left, the rest is -1 with similarity -inf.
        first: Rows before this one are left out.
        removed: Rows that must not be found, in rising order.

    Returns:
        Rows and similarities, both Q x k, most similar first; equals in order of rows.
    """
    rows = np.full((len(queries), count), -1, dtype=np.int64)
    values = np.full((len(queries), count), -np.inf, dtype=np.float32)
    if not len(queries):
        return rows, values
    height = max(1, BLOCK_BYTES // (4 * len(queries)))
    given = torch.from_numpy(queries)
    for start, shard in vectors.shards(first):
        for at in range(0, len(shard), height):
            part = shard[at : at + height]
            near = (_tensor(part) @ given.T).T.contiguous()
            _forget(near, removed, start + at)
            best, where = near.topk(min(count, len(part)), dim=1)
            found = where.numpy() + start + at
            found[~np.isfinite(best.numpy())] = -1
            rows, values = merge(rows, values, found, best.numpy(), count)
    return rows, values


def merge(
    rows: Rows, values: Floats, more_rows: Rows, more_values: Floats, count: int
) -> tuple[Rows, Floats]:
    """The ``count`` best of two lists of rows with their similarities, both Q x n, most similar first.

    Example:
        >>> one, two = np.array([[4]]), np.array([[7]])
        >>> merge(one, np.array([[0.5]]), two, np.array([[0.9]]), 1)[0].tolist()
        [[7]]
    """
    together = np.concatenate([values, more_values], 1)
    order = np.argsort(-together, axis=1, kind="stable")[:, :count]
    every = np.concatenate([rows, more_rows], 1)
    return np.take_along_axis(every, order, 1), np.take_along_axis(together, order, 1)


def _tensor(part: Floats) -> torch.Tensor:
    with warnings.catch_warnings():  # a read-only map is fine: it is never written to
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(part)


def _forget(near: torch.Tensor, removed: Rows | None, start: int) -> None:
    if removed is not None and len(removed):
        low, high = np.searchsorted(removed, [start, start + near.shape[1]])
        near[:, removed[low:high] - start] = -torch.inf
