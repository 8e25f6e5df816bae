"""Zero mean: balance the components of each embedding."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import as_float32
from levelfield.losses.regularizers import Regularizer, register
from levelfield.losses.snr_contrastive import zero_mean


@register(
    "zero_mean",
    paper="Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning",
    year=2019,
)
class ZeroMean(Regularizer):
    """Mean absolute sum of the components of an embedding; zero if every embedding has mean zero.

    Equals pytorch-metric-learning's ZeroMeanRegularizer.

    Example:
        >>> import torch
        >>> ZeroMean()(torch.tensor([[1.0, -1.0], [-2.0, -2.0]]))
        tensor(2.)
    """

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the mean absolute sum of the components of embeddings (B x D); a scalar."""
        return zero_mean(as_float32(embeddings))
