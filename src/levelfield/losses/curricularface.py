"""CurricularFace: ArcFace with growing weights of hard negatives."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction
from levelfield.losses.arcface import check_margin, cosine_with_margin


@register(
    "curricularface",
    kind="classification",
    paper="CurricularFace: Adaptive Curriculum Learning Loss for Deep Face Recognition",
    year=2020,
    own_lr=True,
    loss_lr=2e-3,
    space={"margin": Float(0.0, 60.0), "scale": Float(1.0, 300.0, log=True)},
)
class CurricularFace(ClassificationLoss):
    """ArcFace with weights of hard negatives that grow during training.

    Cross-entropy of scale * cos(angle(x, w) + margin) at the sample's class, as in ``arcface``, and of
    scale * N at the others. N = c if the cosine c is at most the cosine with margin of the own class. N =
    c (t + c) if it is above: a hard negative. t is a moving average of the mean cosine to the own class. It
    starts at zero, and each batch in training mode updates it by 1 - momentum before it is used. It is part
    of the state dict; no gradient flows through it. In evaluation mode it does not change.

    As in the authors' code, hardness uses cos(angle + margin) also beyond 180 degrees.

    Example:
        >>> loss = CurricularFace(num_classes=2, embedding_size=2, margin=60.0, scale=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2)), loss.hardness
        (tensor(0.4741), tensor(0.0100))
    """

    margin: float = 28.6
    """In degrees, added to the angle between the sample and its class."""
    scale: float = 64.0
    """Multiplies the cosines."""
    momentum: float = 0.99
    """Share of the old t that a batch keeps."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_margin(self.margin)
        check_positive("scale", self.scale)
        check_momentum(self.momentum)
        super().__post_init__()
        self.hardness: Tensor
        self.register_buffer("hardness", torch.zeros(()))

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples, classes = l2_normalize(embeddings), l2_normalize(weights)
        cosines = samples @ classes.T
        target = cosine_with_margin(samples, F.embedding(labels, classes), margin=self.margin)
        with torch.no_grad():
            own = cosines.gather(1, labels[:, None]).clamp_(-1, 1)
            hardness = update_moving_average(
                self.hardness, own.mean(), momentum=self.momentum, training=self.training
            )
            angle = math.radians(self.margin)
            hard = cosines > own * math.cos(angle) - (1 - own.square()).sqrt() * math.sin(angle)
        logits = torch.where(hard, cosines * (cosines + hardness), cosines)
        logits = logits.scatter(1, labels[:, None], target[:, None])
        return softmax_loss(logits * self.scale, labels, reduction=self.reduction)


def update_moving_average(average: Tensor, value: Tensor, *, momentum: float, training: bool) -> Tensor:
    """Update the buffer ``average`` in place; return the new average in the dtype of ``value``.

    The result is a copy, because two losses of one step may both need their gradients.

    Example:
        >>> update_moving_average(torch.tensor(1.0), torch.tensor(2.0), momentum=0.9, training=True)
        tensor(1.1000)
    """
    if not training:
        return average.to(value.dtype, copy=True)
    result = momentum * average.to(value.dtype) + (1 - momentum) * value
    average.copy_(result)
    return result


def check_momentum(momentum: float) -> None:
    """Raise UsageError if ``momentum`` is not in 0..1."""
    if not 0 <= momentum <= 1:
        raise UsageError(f"momentum must be from 0 to 1, got {momentum!r}; correct it")
