"""Normalized softmax: cross-entropy over cosine similarities to one weight per class."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction


@register(
    "normalized_softmax",
    kind="classification",
    paper="Classification is a Strong Baseline for Deep Metric Learning",
    year=2019,
    own_lr=True,
    loss_lr=3e-3,
    reported_by=("reality-check", "revisiting", "landmarks"),
    space={"temperature": Float(0.01, 1.0, log=True)},
)
class NormalizedSoftmax(ClassificationLoss):
    """Cross-entropy over cosine similarities to one weight per class.

    -log softmax(cos(x, w) / temperature) at each sample's class.

    Equals pytorch-metric-learning's. "Revisiting Training Strategies" prints eq. 19 without the sample's own
    class in the denominator; this follows the original paper.

    The default temperature is the paper's; the optima of the "Reality Check" are 0.063 to 0.109.

    Example:
        >>> import torch
        >>> loss = NormalizedSoftmax(num_classes=2, embedding_size=2, temperature=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.3133)
    """

    temperature: float = 0.05
    """Divides the cosines."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        return softmax_loss(
            l2_normalize(embeddings) @ l2_normalize(weights).T / self.temperature,
            labels,
            reduction=self.reduction,
        )
