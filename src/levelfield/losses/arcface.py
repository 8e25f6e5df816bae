"""ArcFace: softmax over cosines with a margin added to the angle to the true class."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.core.geometry import first_derivative_only, l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction


@register(
    "arcface",
    kind="classification",
    paper="ArcFace: Additive Angular Margin Loss for Deep Face Recognition",
    year=2019,
    own_lr=True,
    loss_lr=2e-3,
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"margin": Float(0.0, 60.0), "scale": Float(1.0, 300.0, log=True)},
)
class ArcFace(ClassificationLoss):
    """Softmax over cosines with a margin added to the angle to the true class.

    Cross-entropy of scale * cos(angle(x, w) + margin at the sample's class).

    Equals pytorch-metric-learning's, except for float32 embeddings close to their class weight, where that
    one's arccosine loses the gradient; see :func:`cosine_with_margin`. "Revisiting Training Strategies"
    prints eq. 6 without the arccosine; this follows the original paper.

    Example:
        >>> loss = ArcFace(num_classes=2, embedding_size=2, margin=60.0, scale=1.0)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    margin: float = 28.6
    """In degrees, added to the angle between the sample and its class."""
    scale: float = 64.0
    """Multiplies the cosines."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_margin(self.margin)
        check_positive("scale", self.scale)
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples, classes = l2_normalize(embeddings), l2_normalize(weights)
        target = cosine_with_margin(samples, F.embedding(labels, classes), margin=self.margin)
        logits = (samples @ classes.T).scatter(1, labels[:, None], target[:, None])
        return softmax_loss(logits * self.scale, labels, reduction=self.reduction)


def cosine_with_margin(samples: Tensor, targets: Tensor, *, margin: float) -> Tensor:
    """Return cos(angle + margin) (B) between matching rows of two sets of unit vectors, B x D each.

    Beyond 180 degrees the cosine of angle + margin would rise again. As in the authors' code, it continues to
    fall there as cos(angle) - margin * sin(margin), with the margin in radians.

    No arccosine is computed: its slope is infinite at 0 and 180 degrees, and clamping its argument silently
    cuts the gradient. Instead, sine and cosine come from the chord |x - w|, which is exact for small angles
    (in float32 the cosine of any angle below 0.02 degrees is 1). The gradient is exact at any angle above
    zero. It is zero where x equals w, the only point where it has no direction.

    Example:
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> cosine_with_margin(x, x, margin=60.0), cosine_with_margin(x, -x, margin=60.0)
        (tensor([0.5000]), tensor([-1.9069]))
    """
    result: Tensor = _CosineWithMargin.apply(samples, targets, math.radians(margin))
    return result


class _CosineWithMargin(torch.autograd.Function):
    """Sine and cosine from the chord, and the gradient along it."""

    @staticmethod
    def forward(ctx: Any, samples: Tensor, targets: Tensor, margin: float) -> Tensor:
        difference = samples - targets
        chord = torch.linalg.vector_norm(difference, dim=1, keepdim=True)
        cosine = 1 - chord.square() / 2
        sine = chord * (0.5 + cosine / 2).clamp_(min=0).sqrt_()
        slope = math.sin(margin) / sine.clamp(min=torch.finfo(sine.dtype).tiny)
        within = cosine >= -math.cos(margin)
        ctx.save_for_backward(difference.mul_(torch.where(within, -math.cos(margin) - slope * cosine, -1.0)))
        rotated = cosine * math.cos(margin) - sine * math.sin(margin)
        return torch.where(within, rotated, cosine - margin * math.sin(margin)).squeeze(1)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (along,) = ctx.saved_tensors
        result = gradient[:, None] * along
        return result, -result, None


def check_margin(margin: float) -> None:
    """Raise UsageError if ``margin`` is not an angle in degrees from 0 to below 180."""
    if not 0 <= margin < 180:
        raise UsageError(
            f"margin must be an angle in degrees, 0 or more and below 180, got {margin!r}; correct it"
        )
