"""Query expansion: a second search with the query blended with its first results."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.retrieval.rerank._blend import blend
from levelfield.retrieval.rerank.ranking import nearest

BLOCK = 4096  # queries per block, to limit memory


def expand_queries(
    queries: Tensor, gallery: Tensor, *, neighbors: int, alpha: float = 0.0, exclude_self: bool = False
) -> Tensor:
    """Blend the queries (Q x D) with their nearest gallery rows (N x D) and normalize.

    ``alpha=0`` is average query expansion (Chum et al., ICCV 2007): every neighbor has the weight of the
    query. With a larger ``alpha`` the weight of a neighbor is its similarity to that power (alpha query
    expansion: Radenovic, Tolias, Chum, TPAMI 2019), so that doubtful neighbors count less.

    Args:
        queries: Unit vectors.
        gallery: Unit vectors.
        neighbors: Number of neighbors to blend in.
        alpha: Exponent, 0 or more.
        exclude_self: If true, query i is gallery row i and is excluded from its own neighbors.

    Example:
        >>> corners = torch.eye(2)
        >>> expand_queries(corners[:1], torch.tensor([[0.6, 0.8]]), neighbors=1).tolist()[0]
        [0.894..., 0.447...]
    """
    rows, _ = nearest(queries, gallery, neighbors, exclude_self=exclude_self)
    parts = [slice(start, start + BLOCK) for start in range(0, len(queries), BLOCK)]
    return torch.cat([blend(queries[part], gallery, rows[part], alpha=alpha) for part in parts])
