"""Database-side augmentation: query expansion of every gallery row, computed once."""

from __future__ import annotations

from torch import Tensor

from levelfield.retrieval.rerank.query_expansion import expand_queries


def augment_database(gallery: Tensor, *, neighbors: int, alpha: float = 0.0) -> Tensor:
    """Blend each gallery row (N x D) with its nearest other rows and normalize.

    After Turcot and Lowe (ICCV workshops 2009) and Arandjelovic and Zisserman (CVPR 2012). There is no cost
    at query time, but the result must be recomputed when the gallery changes.

    Args:
        gallery: Unit vectors.
        neighbors: Number of other rows blended into each row.
        alpha: The weight of a neighbor is its similarity to this power; 0 gives weight 1.

    Example:
        >>> import torch
        >>> augment_database(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), neighbors=1).tolist()
        [[0.894..., 0.447...], [0.894..., 0.447...]]
    """
    return expand_queries(gallery, gallery, neighbors=neighbors, alpha=alpha, exclude_self=True)
