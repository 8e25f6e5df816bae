"""Vectors blended with their nearest neighbours: what query expansion and database augmentation share."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from levelfield.errors import UsageError


def blend(vectors: Tensor, gallery: Tensor, rows: Tensor, *, alpha: float) -> Tensor:
    """Each vector plus its neighbours, those times their similarity to the power ``alpha``; unit length.

    A neighbour that points away (a similarity below zero) has weight zero, whatever ``alpha`` is.

    Args:
        vectors: Unit vectors, Q x D.
        gallery: Unit vectors, N x D.
        rows: The neighbours of each vector as rows of the gallery, Q x k; -1 stands for none.
        alpha: 0 gives all neighbours the weight of the vector itself.

    Example:
        >>> import torch
        >>> blend(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[-1]]), alpha=0.0)
        tensor([[1., 0.]])
    """
    if alpha < 0:
        raise UsageError(
            f"alpha is {alpha}; near neighbours must not weigh less than far ones, give 0 or more"
        )
    neighbours = gallery[rows.clamp(min=0)]
    similarities = (neighbours * vectors[:, None]).sum(-1)
    weights = similarities.clamp(min=0).pow(alpha) * (similarities > 0) * (rows >= 0)
    return F.normalize(vectors + (neighbours * weights[..., None]).sum(1), dim=1)
