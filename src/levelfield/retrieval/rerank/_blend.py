"""Blending of vectors with their nearest neighbors, for query expansion and database augmentation."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError


def blend(vectors: Tensor, gallery: Tensor, rows: Tensor, *, alpha: float) -> Tensor:
    """Add the neighbors to each vector, weighted by similarity to the power ``alpha``, and normalize.

    A neighbor with negative similarity has weight zero for every ``alpha``.

    Args:
        vectors: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        rows: Gallery rows of the neighbors of each vector, Q x k; -1 for none.
        alpha: Exponent; 0 gives every neighbor the weight of the vector itself.

    Example:
        >>> import torch
        >>> blend(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[-1]]), alpha=0.0)
        tensor([[1., 0.]])
    """
    if alpha < 0:
        raise UsageError(
            f"alpha is {alpha}, which gives near neighbors less weight than far ones; use 0 or more"
        )
    neighbors = gallery[rows.clamp(min=0)]
    similarities = (neighbors * vectors[:, None]).sum(-1)
    weights = similarities.clamp(min=0).pow(alpha) * (similarities > 0) * (rows >= 0)
    return F.normalize(vectors + (neighbors * weights[..., None]).sum(1), dim=1)
