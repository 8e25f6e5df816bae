"""k-reciprocal re-ranking: two pictures are alike if they have the same friends.

Zhong, Zheng, Cao, Li: Re-ranking Person Re-identification with k-reciprocal Encoding (CVPR 2017).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.rerank.ranking import nearest

Ints = npt.NDArray[np.int64]


def rerank_k_reciprocal(
    queries: Tensor,
    gallery: Tensor,
    *,
    count: int,
    k1: int = 20,
    k2: int = 6,
    weight: float = 0.3,
    itself: bool = False,
) -> Tensor:
    """Rankings (Q x count) of the gallery by cosine distance and Jaccard distance of friends, mixed.

    The nearest ``count`` rows of each query are put in a new order; no row comes in from farther down. As in
    the paper, all queries take part in the making of friends; give them one by one where that is not wanted.
    Memory is about (Q + N) * k1 * 50 bytes, so that a gallery of 100,000 is no trouble.

    Args:
        queries: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        count: How many rows of each ranking are put in order and returned.
        k1: Rows among whose nearest k1 the other stands, and the other way round, are friends.
        k2: Each row's list of friends is averaged with those of its nearest k2 - 1.
        weight: The share of the original distance (the paper's lambda); 1 changes nothing.
        itself: Whether the queries are the gallery, and must not find themselves.

    Example:
        >>> points = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]]), dim=1)
        >>> rerank_k_reciprocal(points, points, count=1, k1=1, k2=1, itself=True).tolist()
        [[1], [0], [1]]
    """
    _check(k1, k2, weight)
    everyone = gallery if itself else torch.cat([queries, gallery])
    first = 0 if itself else len(queries)  # where the gallery begins
    encoded = _encode(everyone, k1=k1, k2=k2)
    rows, similarities = nearest(queries, gallery, count, itself=itself)
    distances = weight * (1 - similarities) + (1 - weight) * _jaccard(encoded, rows + first)
    return rows.gather(1, distances.argsort(dim=1, stable=True))


def _check(k1: int, k2: int, weight: float) -> None:
    if k1 < 1 or not 1 <= k2 <= k1:
        raise UsageError(f"k-reciprocal re-ranking needs 1 <= k2 <= k1, got k1={k1}, k2={k2}")
    if not 0 <= weight <= 1:
        raise UsageError(f"the weight of the original distance is {weight}; it must lie between 0 and 1")


def _encode(everyone: Tensor, *, k1: int, k2: int) -> sparse.csr_array:
    """For every row its friends, weighted by exp(-cosine distance), summing to 1, averaged over k2 rows."""
    count = len(everyone)
    k1, half = min(k1, count - 1), min(max(1, round(k1 / 2)), count - 1)
    neighbours, _ = nearest(everyone, everyone, k1, itself=True)
    own = torch.arange(count)[:, None]
    nearby = torch.cat([own, neighbours], 1).numpy()  # each row is its own nearest
    friends = _mutual(nearby[:, : k1 + 1])
    closest = _mutual(nearby[:, : half + 1])
    expanded = friends + _friends_of_friends(friends, closest)
    pairs = expanded.tocoo()
    weights = np.exp(-_pair_distances(everyone, pairs.row, pairs.col))
    encoded = sparse.csr_array((weights, (pairs.row, pairs.col)), shape=(count, count))
    encoded = sparse.csr_array(sparse.diags_array(1 / encoded.sum(1)) @ encoded)
    if k2 > 1:
        encoded = sparse.csr_array(_indicator(nearby[:, :k2]) @ encoded / min(k2, nearby.shape[1]))
    return encoded


def _indicator(nearby: Ints) -> sparse.csr_array:
    """1 where the column is among the row's neighbours."""
    count, width = nearby.shape
    starts = np.arange(0, count * width + 1, width)
    return sparse.csr_array((np.ones(count * width), nearby.ravel(), starts), shape=(count, count))


def _mutual(nearby: Ints) -> sparse.csr_array:
    """1 where each of the two is among the other's neighbours."""
    forward = _indicator(nearby)
    return sparse.csr_array(forward.multiply(forward.T))


def _friends_of_friends(friends: sparse.csr_array, closest: sparse.csr_array) -> sparse.csr_array:
    """The closest friends of those friends of whose closest friends two thirds are friends already."""
    shared = sparse.csr_array(friends @ closest.T)  # how many of j's closest friends are friends of i
    candidates = sparse.csr_array(shared.multiply(friends)).tocoo()
    sizes = closest.sum(1)
    agreed = 3 * candidates.data >= 2 * sizes[candidates.col]
    chosen = sparse.csr_array(
        (np.ones(agreed.sum()), (candidates.row[agreed], candidates.col[agreed])), shape=friends.shape
    )
    return sparse.csr_array(chosen @ closest)


def _pair_distances(everyone: Tensor, left: Ints, right: Ints) -> npt.NDArray[np.float64]:
    """Cosine distances of the pairs, a bounded number at a time."""
    pieces = []
    for start in range(0, len(left), 1 << 18):
        part = slice(start, start + (1 << 18))
        a, b = everyone[torch.from_numpy(left[part]).long()], everyone[torch.from_numpy(right[part]).long()]
        pieces.append((1 - (a.double() * b.double()).sum(1)).numpy())
    return np.concatenate(pieces)


def _jaccard(encoded: sparse.csr_array, rows: Tensor) -> Tensor:
    """1 - (sum of minima) / (sum of maxima) between query i and the rows (Q x K) of its ranking.

    Rows of ``encoded`` sum to 1, so the sum of maxima is 2 minus the sum of minima.
    """
    distances = np.empty(rows.shape)
    dense = np.zeros(encoded.shape[1])
    for query, ranking in enumerate(rows.numpy()):
        here = slice(encoded.indptr[query], encoded.indptr[query + 1])
        dense[encoded.indices[here]] = encoded.data[here]
        others = encoded[ranking]
        smaller = np.minimum(others.data, dense[others.indices])
        owner = np.repeat(np.arange(len(ranking)), np.diff(others.indptr))
        minima = np.bincount(owner, smaller, minlength=len(ranking))
        distances[query] = 1 - minima / (2 - minima)
        dense[encoded.indices[here]] = 0
    return torch.from_numpy(distances).float()
