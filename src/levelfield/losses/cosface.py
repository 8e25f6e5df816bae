"""CosFace: softmax over cosines with a margin subtracted from the cosine of the true class."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction


@register(
    "cosface",
    kind="classification",
    paper="CosFace: Large Margin Cosine Loss for Deep Face Recognition",
    year=2018,
    own_lr=True,
    loss_lr=3e-3,
    reported_by=("reality-check", "landmarks"),
    space={"margin": Float(0.0, 1.0), "scale": Float(1.0, 300.0, log=True)},
)
class CosFace(ClassificationLoss):
    """Softmax over cosines with a margin subtracted from the cosine of the true class.

    Cross-entropy of scale * (cos(x, w) - margin at the sample's class). Equals pytorch-metric-learning's.

    Example:
        >>> import torch
        >>> loss = CosFace(num_classes=2, embedding_size=2, margin=0.5, scale=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    margin: float = 0.35
    """Subtracted from the cosine to the sample's class."""
    scale: float = 64.0
    """Multiplies the cosines."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        cosines = l2_normalize(embeddings) @ l2_normalize(weights).T
        penalty = cosines.new_full((len(labels), 1), -self.margin)
        return softmax_loss(
            cosines.scatter_add(1, labels[:, None], penalty) * self.scale, labels, reduction=self.reduction
        )
