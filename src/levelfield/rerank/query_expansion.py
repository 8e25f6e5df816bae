"""Query expansion: ask again with the query blended with its own first answers."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.rerank._blend import blend
from levelfield.rerank.ranking import nearest

BLOCK = 4096  # queries whose neighbours are in memory at once


def expand_queries(
    queries: Tensor, gallery: Tensor, *, neighbours: int, alpha: float = 0.0, itself: bool = False
) -> Tensor:
    """Queries (Q x D) blended with their nearest rows of the gallery (N x D), unit length.

    ``alpha=0`` is average query expansion (Chum et al., ICCV 2007): every neighbour weighs as much as the
    query. A larger ``alpha`` gives a neighbour its similarity to that power as weight (alpha query expansion:
    Radenovic, Tolias, Chum, TPAMI 2019), so that doubtful neighbours do less harm.

    Args:
        queries: Unit vectors.
        gallery: Unit vectors.
        neighbours: How many answers are blended in.
        alpha: 0 or more.
        itself: Whether query i is row i of the gallery and must not find itself.

    Example:
        >>> corners = torch.eye(2)
        >>> expand_queries(corners[:1], torch.tensor([[0.6, 0.8]]), neighbours=1).tolist()[0]
        [0.894..., 0.447...]
    """
    rows, _ = nearest(queries, gallery, neighbours, itself=itself)
    parts = [slice(start, start + BLOCK) for start in range(0, len(queries), BLOCK)]
    return torch.cat([blend(queries[part], gallery, rows[part], alpha=alpha) for part in parts])
