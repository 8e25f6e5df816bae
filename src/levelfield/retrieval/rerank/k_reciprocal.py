"""k-reciprocal re-ranking: two images are similar if they share reciprocal neighbors.

Zhong, Zheng, Cao, Li: Re-ranking Person Re-identification with k-reciprocal Encoding (CVPR 2017).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.retrieval.rerank.ranking import nearest, ranked_blocks

Ints = npt.NDArray[np.int64]


def rerank_k_reciprocal(
    queries: Tensor,
    gallery: Tensor,
    *,
    count: int,
    depth: int | None = None,
    k1: int = 20,
    k2: int = 6,
    weight: float = 0.3,
    exclude_self: bool = False,
) -> Tensor:
    """Return rankings (Q x count) by cosine distance mixed with Jaccard distance of reciprocal neighbors.

    As in the paper, the other queries also count as neighbors; pass queries one by one to avoid that. Memory
    is about (Q + N) * k1 * 50 bytes: 100 MB for a gallery of 100,000 at k1 = 20.

    Args:
        queries: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        count: Number of rows per ranking.
        depth: Only the nearest ``depth`` rows of each query can be in its ranking. None: all rows.
        k1: Two rows are reciprocal neighbors if each is among the k1 nearest of the other.
        k2: The neighbor weights of each row are averaged with those of its k2 - 1 nearest rows.
        weight: Share of the original distance (the paper's lambda); 1 changes nothing.
        exclude_self: If true, the queries are the gallery, and each is excluded from its own ranking.

    Example:
        >>> points = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]]), dim=1)
        >>> rerank_k_reciprocal(points, points, count=1, k1=1, k2=1, exclude_self=True).tolist()
        [[1], [0], [1]]
    """
    _check(k1, k2, weight)
    vectors = gallery if exclude_self else torch.cat([queries, gallery])
    first = 0 if exclude_self else len(queries)  # first gallery row
    encoded = _encode(vectors, k1=k1, k2=k2)
    by_column = sparse.csc_array(encoded)
    rankings = []
    depth = None if depth is None else max(depth, count)
    for part, rows, similarities in ranked_blocks(queries, gallery, depth, exclude_self=exclude_self):
        jaccard = _jaccard(encoded, by_column, range(part.start, part.stop))[:, first:].gather(1, rows)
        distances = weight * (1 - similarities) + (1 - weight) * jaccard
        rankings.append(rows.gather(1, distances.argsort(dim=1, stable=True)[:, :count]))
    return torch.cat(rankings)


def _check(k1: int, k2: int, weight: float) -> None:
    if k1 < 1 or not 1 <= k2 <= k1:
        raise UsageError(f"k-reciprocal re-ranking got k1={k1}, k2={k2}; use 1 <= k2 <= k1")
    if not 0 <= weight <= 1:
        raise UsageError(f"the weight of the original distance is {weight}; it must lie between 0 and 1")


def _encode(vectors: Tensor, *, k1: int, k2: int) -> sparse.csr_array:
    """Return the reciprocal neighbors of every row.

    Weights are exp(-cosine distance), normalized to sum 1 and averaged over k2 rows.
    """
    count = len(vectors)
    k1, half = min(k1, count - 1), min(max(1, round(k1 / 2)), count - 1)
    neighbors, _ = nearest(vectors, vectors, k1, exclude_self=True)
    own = torch.arange(count)[:, None]
    nearby = torch.cat([own, neighbors], 1).numpy()  # each row is its own nearest neighbor
    reciprocal = _mutual(nearby[:, : k1 + 1])
    closest = _mutual(nearby[:, : half + 1])
    expanded = reciprocal + _expand_neighbors(reciprocal, closest)
    pairs = expanded.tocoo()
    weights = np.exp(-_pair_distances(vectors, pairs.row, pairs.col))
    encoded = sparse.csr_array((weights, (pairs.row, pairs.col)), shape=(count, count))
    encoded = sparse.csr_array(sparse.diags_array(1 / encoded.sum(1)) @ encoded)
    if k2 > 1:
        encoded = sparse.csr_array(_indicator(nearby[:, :k2]) @ encoded / min(k2, nearby.shape[1]))
    return encoded


def _indicator(nearby: Ints) -> sparse.csr_array:
    """Return a sparse matrix with 1 where the column is among the row's neighbors."""
    count, width = nearby.shape
    starts = np.arange(0, count * width + 1, width)
    return sparse.csr_array((np.ones(count * width), nearby.ravel(), starts), shape=(count, count))


def _mutual(nearby: Ints) -> sparse.csr_array:
    """Return a sparse matrix with 1 where row and column are neighbors of each other."""
    forward = _indicator(nearby)
    return sparse.csr_array(forward.multiply(forward.T))


def _expand_neighbors(reciprocal: sparse.csr_array, closest: sparse.csr_array) -> sparse.csr_array:
    """Return the expansion of the reciprocal neighbors.

    A neighbor j of i adds its closest neighbors if at least two thirds of them are neighbors of i.
    """
    shared = sparse.csr_array(
        reciprocal @ closest.T
    )  # number of closest neighbors of j that are neighbors of i
    candidates = sparse.csr_array(shared.multiply(reciprocal)).tocoo()
    sizes = closest.sum(1)
    agreed = 3 * candidates.data >= 2 * sizes[candidates.col]
    chosen = sparse.csr_array(
        (np.ones(agreed.sum()), (candidates.row[agreed], candidates.col[agreed])), shape=reciprocal.shape
    )
    return sparse.csr_array(chosen @ closest)


def _pair_distances(vectors: Tensor, left: Ints, right: Ints) -> npt.NDArray[np.float64]:
    """Return the cosine distances of pairs, computed in blocks."""
    pieces = []
    for start in range(0, len(left), 1 << 18):
        part = slice(start, start + (1 << 18))
        a, b = vectors[torch.from_numpy(left[part]).long()], vectors[torch.from_numpy(right[part]).long()]
        pieces.append((1 - (a.double() * b.double()).sum(1)).numpy())
    return np.concatenate(pieces)


def _jaccard(encoded: sparse.csr_array, by_column: sparse.csc_array, queries: range) -> Tensor:
    """Return the Jaccard distances of ``queries`` to all rows.

    The distance is 1 - (sum of minima) / (sum of maxima). Rows of ``encoded`` sum to 1, so the sum of
    maxima is 2 minus the sum of minima. Only rows that share a neighbor with the query are visited.
    """
    minima = np.empty((len(queries), encoded.shape[0]))
    for place, query in enumerate(queries):
        here = slice(encoded.indptr[query], encoded.indptr[query + 1])
        columns, mine = encoded.indices[here], encoded.data[here]
        sizes = by_column.indptr[columns + 1] - by_column.indptr[columns]
        starts = np.repeat(by_column.indptr[columns] - np.cumsum(sizes) + sizes, sizes)
        entries = starts + np.arange(sizes.sum())
        smaller = np.minimum(by_column.data[entries], np.repeat(mine, sizes))
        minima[place] = np.bincount(by_column.indices[entries], smaller, minlength=encoded.shape[0])
    return torch.from_numpy(1 - minima / (2 - minima)).float()
