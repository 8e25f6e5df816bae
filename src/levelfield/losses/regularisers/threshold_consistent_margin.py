"""Threshold-consistent margin: every class keeps the same two distances."""

from __future__ import annotations

from torch import Tensor

from levelfield.geometry import checked, loss_of_cosines, pair_counts
from levelfield.losses._reduction import hinges
from levelfield.losses.regularisers import register


@register(
    "threshold_consistent_margin",
    paper="Threshold-Consistent Margin Loss for Open-World Deep Metric Learning",
    year=2024,
    sees=("labels",),
)
def threshold_consistent_margin(
    embeddings: Tensor, *, labels: Tensor, positive_margin: float = 0.9, negative_margin: float = 0.5
) -> Tensor:
    """The mean shortfall of positives below one cosine, plus the mean excess of negatives above another.

    ``mean [positive_margin - s]+`` over the positive pairs of embeddings (B x D) that fall short, plus
    ``mean [s - negative_margin]+`` over the negative pairs that are too close; pairs that keep their margin
    do not count. So one threshold between the margins serves all classes. Equals pytorch-metric-learning's
    loss of that name, with both its weights 1.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> threshold_consistent_margin(x, labels=y)  # (0.9 - 0.6) + (0.8 - 0.5)
        tensor(0.6000)
    """
    vectors = checked(embeddings, labels)
    if not len(labels):
        return vectors.sum()
    positive, negative = pair_counts(labels, dtype=vectors.dtype)
    parts = (positive, -1, positive_margin), (negative, 1, -negative_margin)
    return loss_of_cosines(vectors, lambda cosines: hinges(cosines, *parts, reduction="mean_nonzero"))
