"""KoLeo: spread the embeddings evenly over the sphere."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import as_float32, l2_normalize
from levelfield.losses.regularizers import Regularizer, register


@register("koleo", paper="Spreading Vectors for Similarity Search", year=2019)
class KoLeo(Regularizer):
    """Negative mean log distance of each normalized embedding to its nearest neighbor in the batch.

    This is the Kozachenko-Leonenko estimator of the entropy, up to constants. Two equal embeddings count as
    ``eps`` apart and do not push each other: their distance has no direction. A single embedding has no
    neighbor and its term is zero.

    Example:
        >>> round(KoLeo()(torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).item(), 4)  # -log 2
        -0.6931
    """

    eps: float = 1e-8
    """Added to the distances before the logarithm."""

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the value of the formula above for embeddings (B x D); a scalar."""
        points = l2_normalize(as_float32(embeddings))
        if len(points) < 2:
            return points.sum() * 0.0
        with torch.no_grad(), torch.autocast(points.device.type, enabled=False):
            nearest = (points @ points.T).fill_diagonal_(-torch.inf).argmax(dim=1)
        gaps: Tensor = torch.linalg.vector_norm(points - points[nearest], dim=1)
        return -(gaps + self.eps).log().mean()
