"""L2: keep the embeddings short."""

from __future__ import annotations

from torch import Tensor

from levelfield.losses.npair import mean_square_norm
from levelfield.losses.regularisers import register


@register(
    "l2",
    paper="Improved Deep Metric Learning with Multi-class N-pair Loss Objective",
    year=2016,
)
def l2(embeddings: Tensor) -> Tensor:
    """The mean squared length of the embeddings (B x D); of no use where they are normalised.

    pytorch-metric-learning's LpRegularizer takes the plain length, unless ``power=2``.

    Example:
        >>> import torch
        >>> l2(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor(13.)
    """
    return mean_square_norm(embeddings)
