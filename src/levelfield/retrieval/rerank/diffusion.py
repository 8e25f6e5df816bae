"""Diffusion: propagation of a query's similarities along the neighbor graph.

Iscen, Tolias, Avrithis, Furon, Chum: Efficient Diffusion on Region Manifolds (CVPR 2017).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import cg
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.retrieval.rerank.ranking import nearest, ranked_blocks

STEPS = 20  # conjugate gradient steps, as in the paper: the order converges long before the values


def rerank_diffusion(
    queries: Tensor,
    gallery: Tensor,
    *,
    count: int,
    depth: int | None = None,
    neighbors: int = 20,
    gamma: float = 3.0,
    flow: float = 0.9,
    exclude_self: bool = False,
) -> Tensor:
    """Return rankings (Q x count) by diffusion from each query's nearest rows.

    Rows that nothing arrives at follow, most similar first.

    Args:
        queries: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        count: Number of rows per ranking.
        depth: Only the nearest ``depth`` rows of each query can be in its ranking. None: all rows.
        neighbors: Number of neighbors of a query and of a graph node. Only mutual neighbors are connected.
        gamma: The weight of an edge is its similarity to this power.
        flow: Share that is passed on at every step; 0 stays at the query's own neighbors.
        exclude_self: If true, the queries are the gallery, and each is excluded from its own ranking.

    Example:
        >>> points = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]]), dim=1)
        >>> rerank_diffusion(points, points, count=1, neighbors=1, exclude_self=True).tolist()
        [[1], [0], [1]]
    """
    if neighbors < 1 or gamma < 0 or not 0 <= flow < 1:
        raise UsageError(
            f"diffusion got neighbors={neighbors}, gamma={gamma}, flow={flow}; "
            "use neighbors >= 1, gamma >= 0, 0 <= flow < 1"
        )
    system = _linear_system(gallery, neighbors=neighbors, gamma=gamma, flow=flow)
    rankings = []
    deep = None if depth is None else max(depth, count, neighbors)
    for _, rows, similarities in ranked_blocks(queries, gallery, deep, exclude_self=exclude_self):
        sources = similarities[:, :neighbors].clamp(min=0).double().pow(gamma).numpy()
        for ranking, source in zip(rows.numpy(), sources, strict=True):
            start = np.zeros(len(gallery))
            start[ranking[:neighbors]] = source
            arrived, _ = cg(system, start, rtol=1e-6, maxiter=STEPS)
            kept = ranking if depth is None else ranking[: max(depth, count)]
            order = np.argsort(-arrived[kept], kind="stable")[:count]
            rankings.append(torch.from_numpy(kept[order]))
    return torch.stack(rankings)


def _linear_system(gallery: Tensor, *, neighbors: int, gamma: float, flow: float) -> sparse.csr_array:
    """Return I - flow * S; S is the graph of mutual neighbors, normalized on both sides."""
    count = len(gallery)
    rows, similarities = nearest(gallery, gallery, neighbors, exclude_self=True)
    starts = np.arange(0, rows.numel() + 1, rows.shape[1])
    weights = similarities.clamp(min=0).double().pow(gamma).numpy().ravel()
    forward = sparse.csr_array((weights, rows.numpy().ravel(), starts), shape=(count, count))
    mutual = sparse.csr_array(forward.minimum(forward.T))
    degrees = np.maximum(mutual.sum(1), 1e-12)
    scale = sparse.diags_array(1 / np.sqrt(degrees))
    return sparse.csr_array(sparse.eye_array(count) - flow * (scale @ mutual @ scale))
