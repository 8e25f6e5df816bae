"""Most similar rows of one block of vectors, by faiss if it is installed, otherwise by a matrix product.

Both compare all rows in float32, and both break ties in row order.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.retrieval.index._vectors import Floats, Rows

BLOCK_BYTES = 128 << 20  # similarities of a block of queries to a block of rows
MAX_QUERIES = 256  # of a block; the chunks of more do not fit into the cache
CHUNK = 32  # consecutive rows
SPARE = 64  # rows beyond the requested ones that faiss may return, in place of removed rows


def nearest_in_block(part: Floats, queries: Floats, count: int, gone: Rows) -> tuple[Rows, Floats]:
    """Return the rows of a block that are most similar to each query, and their similarities.

    Args:
        part: Rows (N x D), contiguous.
        queries: Unit vectors, Q x D.
        count: Number of results, at most N.
        gone: Rows to exclude, in ascending order. Places that are left over have the similarity -inf.

    Returns:
        Rows and similarities, both Q x count, most similar first; ties in row order.
    """
    faiss = _faiss()
    if faiss is None or len(gone) > SPARE:
        return by_product(part, queries, count, gone)
    wanted = min(count + len(gone) + 1, len(part))
    values, rows = faiss.knn(queries, part, wanted, metric=faiss.METRIC_INNER_PRODUCT)
    if len(gone):
        values[np.isin(rows, gone)] = -np.inf
    rows, values = _in_order(rows, values)
    cut = values[:, count - 1] == values[:, count] if wanted > count else np.zeros(len(queries), dtype=bool)
    rows, values = rows[:, :count], values[:, :count]
    if cut.any():  # a tie at the last place, where faiss keeps any of the rows
        rows[cut], values[cut] = by_product(part, queries[cut], count, gone)
    return rows, values


@cache
def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        return None
    return faiss


def by_product(part: Floats, queries: Floats, count: int, gone: Rows) -> tuple[Rows, Floats]:
    """Return what :func:`nearest_in_block` returns, without faiss."""
    rows = np.empty((len(queries), count), dtype=np.int64)
    values = np.empty((len(queries), count), dtype=np.float32)
    padded = -(-len(part) // CHUNK) * CHUNK
    height = max(1, min(MAX_QUERIES, len(queries), BLOCK_BYTES // (4 * padded)))
    buffer = torch.full((height, padded), -torch.inf)
    for low in range(0, len(queries), height):
        some = queries[low : low + height]
        near = buffer[: len(some)]
        if len(some) == 1:  # NumPy has the faster product of a matrix and a vector
            np.dot(part, some[0], out=near[0, : len(part)].numpy())
        else:
            torch.mm(_tensor(some), _tensor(part).T, out=near[:, : len(part)])
        near[:, torch.from_numpy(gone)] = -torch.inf
        rows[low : low + height], values[low : low + height] = largest(near, count)
    return rows, values


def largest(values: Tensor, count: int) -> tuple[Rows, Floats]:
    """Return the columns of the ``count`` largest values of each row, and the values.

    The values are reduced to the largest of every 32 columns. The result lies in the best of these chunks, so
    that only a few values of each row are sorted.

    Args:
        values: B x M, padded with -inf so that M is a multiple of 32.
        count: Number of columns.

    Returns:
        Columns and values, both B x count, largest first; ties in the order of the columns.

    Example:
        >>> largest(torch.tensor([[1.0, 3.0, 2.0, 3.0] + 28 * [-torch.inf]]), 3)[0].tolist()
        [[1, 3, 2]]
    """
    chunks = values.shape[1] // CHUNK
    if count * 2 > chunks:
        return _largest_of_all(values, count)
    peaks = values.view(len(values), chunks, CHUNK).amax(2)
    # Among chunks with the same peak the first are taken. So no column of the result is in another chunk:
    # each chunk that is taken has a column that comes first.
    kept = np.sort(_largest_of_all(peaks, count)[0], axis=1)
    flat = torch.from_numpy((kept + np.arange(len(values))[:, None] * chunks).ravel())
    few = values.reshape(-1, CHUNK).index_select(0, flat).view(len(values), -1)
    places, best = _largest_of_all(few, count)
    columns: Rows = np.take_along_axis(kept, places // CHUNK, 1) * CHUNK + places % CHUNK
    return columns, best


def _largest_of_all(values: Tensor, count: int) -> tuple[Rows, Floats]:
    """Return what :func:`largest` returns, without the detour over chunks."""
    best, found = values.topk(count, dim=1)
    columns, kept = found.numpy(), best.numpy()
    tied = ((values >= best[:, -1:]).sum(1) > count).nonzero()[:, 0]
    for row in tied.tolist():  # a tie at the last place
        line, limit = values[row].numpy(), kept[row, -1]
        above = np.flatnonzero(line > limit)
        columns[row] = np.concatenate([above, np.flatnonzero(line == limit)[: count - len(above)]])
        kept[row] = line[columns[row]]
    return _in_order(columns, kept)


def _in_order(rows: Rows, values: Floats) -> tuple[Rows, Floats]:
    """Return results (Q x k) by similarity, then row."""
    order = np.lexsort((rows, -values))
    return np.take_along_axis(rows, order, 1), np.take_along_axis(values, order, 1)


def _tensor(part: Floats) -> Tensor:
    with warnings.catch_warnings():  # the array is read-only, and it is never written to
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(part)
