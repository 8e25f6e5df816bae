"""Diffusion: let a query's similarity flow along the graph of neighbours.

Iscen, Tolias, Avrithis, Furon, Chum: Efficient Diffusion on Region Manifolds (CVPR 2017).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import cg
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.rerank.ranking import nearest

STEPS = 20  # of conjugate gradients, as in the paper: the order settles long before the values do


def rerank_diffusion(
    queries: Tensor,
    gallery: Tensor,
    *,
    count: int,
    neighbours: int = 20,
    gamma: float = 3.0,
    flow: float = 0.9,
    itself: bool = False,
) -> Tensor:
    """Rankings (Q x count) by what arrives of a flow that starts at each query's nearest rows.

    The nearest ``count`` rows of each query are put in a new order; no row comes in from farther down.

    Args:
        queries: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        count: How many rows of each ranking are put in order and returned.
        neighbours: How many edges a row has in the graph (only mutual ones count), and a query into it.
        gamma: The power of the similarity that an edge's weight is.
        flow: The share that flows on at every step; 0 stays at the query's own neighbours.
        itself: Whether the queries are the gallery, and must not find themselves.

    Example:
        >>> points = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0]]), dim=1)
        >>> rerank_diffusion(points, points, count=1, neighbours=1, itself=True).tolist()
        [[1], [0], [1]]
    """
    if neighbours < 1 or gamma < 0 or not 0 <= flow < 1:
        raise UsageError(
            f"diffusion needs neighbours >= 1, gamma >= 0, 0 <= flow < 1, got {neighbours}, {gamma}, {flow}"
        )
    system = _system(gallery, neighbours=neighbours, gamma=gamma, flow=flow)
    rows, similarities = nearest(queries, gallery, max(count, neighbours), itself=itself)
    order = torch.empty(len(queries), min(count, rows.shape[1]), dtype=torch.int64)
    sources = similarities[:, :neighbours].clamp(min=0).double().pow(gamma).numpy()
    for query, (ranking, source) in enumerate(zip(rows.numpy(), sources, strict=True)):
        start = np.zeros(len(gallery))
        start[ranking[:neighbours]] = source
        arrived, _ = cg(system, start, rtol=1e-6, maxiter=STEPS)
        kept = ranking[:count]
        order[query] = torch.from_numpy(kept[np.argsort(-arrived[kept], kind="stable")])
    return order


def _system(gallery: Tensor, *, neighbours: int, gamma: float, flow: float) -> sparse.csr_array:
    """I - flow * S, where S is the graph of mutual neighbours, normalised on both sides."""
    count = len(gallery)
    rows, similarities = nearest(gallery, gallery, neighbours, itself=True)
    starts = np.arange(0, rows.numel() + 1, rows.shape[1])
    weights = similarities.clamp(min=0).double().pow(gamma).numpy().ravel()
    forward = sparse.csr_array((weights, rows.numpy().ravel(), starts), shape=(count, count))
    mutual = sparse.csr_array(forward.minimum(forward.T))
    degrees = np.maximum(mutual.sum(1), 1e-12)
    scale = sparse.diags_array(1 / np.sqrt(degrees))
    return sparse.csr_array(sparse.eye_array(count) - flow * (scale @ mutual @ scale))
