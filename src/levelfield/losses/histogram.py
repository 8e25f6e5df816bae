"""Histogram loss."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, products, unit
from levelfield.losses._histogram import soft_histogram
from levelfield.losses._module import EmbeddingLoss
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Int


def histogram(
    embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, *, num_bins: int = 65
) -> Tensor:
    """The chance that a random negative pair is more similar than a random positive pair.

    ``sum_r h-(r) sum_{q <= r} h+(q)`` with the histograms h of the cosine similarities of positive and of
    negative pairs ("Revisiting Training Strategies", eq. 7-9). ``num_bins`` is the number of nodes R from
    -1 to 1; pytorch-metric-learning's ``n_bins`` is R - 1, else the two are equal where every sample has a
    positive (that one leaves out negative pairs of two samples that have none).

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        num_bins: The number of nodes of the histograms.

    Returns:
        A scalar in 0..1; zero without positive or without negative pairs.

    Example:
        >>> histogram(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))  # all in order
        tensor(0.)
        >>> histogram(torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([0, 0, 1]))
        tensor(1.)
    """
    similarity = products(unit(checked(embeddings, labels)))
    positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
    groups = (2 - negative).sub_(positive, alpha=2).int()
    positions = (similarity + 1) * ((num_bins - 1) / 2)
    counts = soft_histogram(positions, groups, num_groups=3, num_nodes=num_bins)
    pulled, pushed = counts[0] / positive.sum().clamp(min=1), counts[1] / negative.sum().clamp(min=1)
    return torch.dot(pushed, pulled.cumsum(0))


@register(
    "histogram",
    paper="Learning Deep Embeddings with Histogram Loss",
    year=2016,
    tuples="pairs",
    reported_by=("revisiting",),
    space={"num_bins": Int(3, 257, log=True)},
)
class Histogram(EmbeddingLoss):
    """Keep the distributions of positive and negative similarities from overlapping."""

    def __init__(self, *, num_bins: int = 65) -> None:
        super().__init__(partial(histogram, num_bins=num_bins))
