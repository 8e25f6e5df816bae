"""Zero mean: keep the components of each embedding in balance."""

from __future__ import annotations

from torch import Tensor

from levelfield.losses import snr_contrastive
from levelfield.losses.regularisers import register


@register(
    "zero_mean",
    paper="Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning",
    year=2019,
)
def zero_mean(embeddings: Tensor) -> Tensor:
    """The mean over embeddings (B x D) of the absolute sum of components: zero if each has mean zero.

    Equals pytorch-metric-learning's ZeroMeanRegularizer.

    Example:
        >>> import torch
        >>> zero_mean(torch.tensor([[1.0, -1.0], [-2.0, -2.0]]))
        tensor(2.)
    """
    return snr_contrastive.zero_mean(embeddings)
