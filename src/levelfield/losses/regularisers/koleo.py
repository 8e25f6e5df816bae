"""KoLeo: spread the embeddings evenly over the sphere."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import unit
from levelfield.losses.regularisers import register


@register("koleo", paper="Spreading Vectors for Similarity Search", year=2019)
def koleo(embeddings: Tensor, *, eps: float = 1e-8) -> Tensor:
    """Minus the mean log distance of each normalised embedding (B x D) to its nearest neighbour in the batch.

    This is the Kozachenko-Leonenko estimator of the entropy, up to constants. Two embeddings in one place
    count as ``eps`` apart and do not push each other: their distance has no direction. A single embedding
    has no neighbour and costs nothing.

    Example:
        >>> round(koleo(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).item(), 4)  # -log 2
        -0.6931
    """
    points = unit(embeddings)
    if len(points) < 2:
        return points.sum() * 0.0
    with torch.no_grad(), torch.autocast(points.device.type, enabled=False):
        nearest = (points @ points.T).fill_diagonal_(-torch.inf).argmax(dim=1)
    gaps: Tensor = torch.linalg.vector_norm(points - points[nearest], dim=1)
    return -(gaps + eps).log().mean()
