"""Database-side augmentation: query expansion for every row of the gallery, done once."""

from __future__ import annotations

from torch import Tensor

from levelfield.rerank.query_expansion import expand_queries


def augment_database(gallery: Tensor, *, neighbours: int, alpha: float = 0.0) -> Tensor:
    """Each row of the gallery (N x D) blended with its nearest other rows, unit length.

    After Turcot and Lowe (ICCV workshops 2009) and Arandjelovic and Zisserman (CVPR 2012). It costs nothing
    when a query comes, but must be done anew when the gallery changes.

    Args:
        gallery: Unit vectors.
        neighbours: How many other rows are blended into each.
        alpha: The power of the similarity that a neighbour's weight is; 0 gives all the weight 1.

    Example:
        >>> import torch
        >>> augment_database(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), neighbours=1).tolist()
        [[0.894..., 0.447...], [0.894..., 0.447...]]
    """
    return expand_queries(gallery, gallery, neighbours=neighbours, alpha=alpha, itself=True)
