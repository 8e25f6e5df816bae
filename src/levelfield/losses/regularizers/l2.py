"""L2: keep the embeddings short."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import as_float32
from levelfield.losses.npair import mean_square_norm
from levelfield.losses.regularizers import Regularizer, register


@register(
    "l2",
    paper="Improved Deep Metric Learning with Multi-class N-pair Loss Objective",
    year=2016,
)
class L2(Regularizer):
    """Mean squared length of the embeddings; constant if they are normalized.

    pytorch-metric-learning's LpRegularizer uses the plain length, unless ``power=2``.

    Example:
        >>> import torch
        >>> L2()(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor(13.)
    """

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the mean squared length of embeddings (B x D); a scalar."""
        return mean_square_norm(as_float32(embeddings))
