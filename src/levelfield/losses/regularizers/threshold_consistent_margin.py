"""Threshold-consistent margin: the same two cosine bounds for all classes."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import check_embeddings, loss_of_cosines, pair_counts
from levelfield.losses._reduction import hinge_loss_and_gradient
from levelfield.losses.regularizers import Regularizer, register


@register(
    "threshold_consistent_margin",
    paper="Threshold-Consistent Margin Loss for Open-World Deep Metric Learning",
    year=2024,
    sees=("labels",),
)
class ThresholdConsistentMargin(Regularizer):
    """Mean shortfall of positive cosines below one bound, plus mean excess of negative cosines above another.

    ``mean [positive_margin - s]+`` over the positive pairs below their bound, plus
    ``mean [s - negative_margin]+`` over the negative pairs above theirs; s is the cosine. Pairs within their
    bound do not count. So one threshold between the bounds fits all classes. Equals
    pytorch-metric-learning's loss of that name, with both its weights 1.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        >>> ThresholdConsistentMargin()(x, labels=y)  # (0.9 - 0.6) + (0.8 - 0.5)
        tensor(0.6000)
    """

    positive_margin: float = 0.9
    """Positive pairs should have at least this cosine."""
    negative_margin: float = 0.5
    """Negative pairs should have at most this cosine."""

    def forward(self, embeddings: Tensor, *, labels: Tensor) -> Tensor:
        """Return the value of the formula above for embeddings (B x D) and labels (B); a scalar."""
        vectors = check_embeddings(embeddings, labels)
        if not len(labels):
            return vectors.sum()
        positive, negative = pair_counts(labels, dtype=vectors.dtype)
        terms = (positive, -1, self.positive_margin), (negative, 1, -self.negative_margin)
        return loss_of_cosines(
            vectors, lambda cosines: hinge_loss_and_gradient(cosines, *terms, reduction="mean_nonzero")
        )
