"""Exact search: comparison with every row."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from levelfield.retrieval.index._vectors import Floats, Rows, Vectors

BLOCK_BYTES = 64 << 20


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
            _mask_removed(near, removed, start + at)
            best, where = near.topk(min(count, len(part)), dim=1)
            found = where.numpy() + start + at
            found[~np.isfinite(best.numpy())] = -1
            rows, values = merge_results(rows, values, found, best.numpy(), count)
    return rows, values


def search_rows(vectors: Vectors, queries: Floats, count: int, among: Rows) -> tuple[Rows, Floats]:
    """Return the ``count`` most similar of some rows for every query, and their similarities.

    Only these rows are read, so a narrow filter is fast.

    Args:
        vectors: Vectors to search in.
        queries: Unit vectors, Q x D.
        count: Number k of results; limited to the number of rows.
        among: Rows to search, in ascending order.

    Returns:
        Rows and similarities, both Q x k, most similar first; ties in row order.
    """
    count = min(count, len(among))
    rows = np.full((len(queries), count), -1, dtype=np.int64)
    values = np.full((len(queries), count), -np.inf, dtype=np.float32)
    height = max(1, BLOCK_BYTES // (4 * max(len(queries), vectors.size)))
    for start in range(0, len(among), height):
        part = among[start : start + height]
        near = queries @ vectors.take(part).T
        found = np.broadcast_to(part, near.shape)
        rows, values = merge_results(rows, values, found, near, count)
    return rows, values


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


def _tensor(part: Floats) -> torch.Tensor:
    with warnings.catch_warnings():  # the array is read-only, and it is never written to
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(part)


def _mask_removed(near: torch.Tensor, removed: Rows | None, start: int) -> None:
    if removed is not None and len(removed):
        low, high = np.searchsorted(removed, [start, start + near.shape[1]])
        near[:, removed[low:high] - start] = -torch.inf
