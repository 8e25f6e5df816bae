"""Histogram loss."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import MinedTuples, dot_products, l2_normalize, pair_masks
from levelfield.core.options import Size
from levelfield.core.space import Int
from levelfield.losses import register
from levelfield.losses._histogram import soft_histogram
from levelfield.losses._module import EmbeddingLoss


@register(
    "histogram",
    paper="Learning Deep Embeddings with Histogram Loss",
    year=2016,
    tuples="pairs",
    reported_by=("revisiting",),
    space={"num_bins": Int(3, 257, log=True)},
)
class Histogram(EmbeddingLoss):
    """Keep the distributions of positive and negative similarities from overlapping.

    ``sum_r h-(r) sum_{q <= r} h+(q)`` with the histograms h of the cosine similarities of positive and of
    negative pairs ("Revisiting Training Strategies", eq. 7-9). ``num_bins`` is the number of nodes R from
    -1 to 1; pytorch-metric-learning's ``n_bins`` is R - 1. Otherwise the two are equal if every sample has a
    positive; that one leaves out negative pairs of two samples without positives.

    Example:
        >>> Histogram()(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))  # no overlap
        tensor(0.)
        >>> Histogram()(torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([0, 0, 1]))
        tensor(1.)
    """

    num_bins: Size = 65
    """Number of nodes of the histograms."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors))
        positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
        groups = (2 - negative).sub_(positive, alpha=2).int()
        positions = (similarity + 1) * ((self.num_bins - 1) / 2)
        counts = soft_histogram(positions, groups, num_groups=3, num_nodes=self.num_bins)
        pulled, pushed = counts[0] / positive.sum().clamp(min=1), counts[1] / negative.sum().clamp(min=1)
        return torch.dot(pushed, pulled.cumsum(0))
