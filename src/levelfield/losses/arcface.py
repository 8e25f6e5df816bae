"""ArcFace: softmax over cosines with a margin added to the angle to the true class."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.errors import UsageError
from levelfield.losses import register
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction
from levelfield.space import Float


def arcface(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    margin: float = 28.6,
    scale: float = 64.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy of scale * cos(angle(x, w) + margin at the sample's class).

    Equals pytorch-metric-learning's, but for float32 embeddings close to their class weight, where that one's
    arccosine loses the gradient; see :func:`cosine_with_margin`. "Revisiting Training Strategies" prints eq. 6 without the
    arccosine; this follows the original publication.

    Args:
        embeddings: B x D, of any length; normalised here.
        labels: B, in 0..C-1.
        weights: C x D, of any length; normalised here.
        margin: In degrees, added to the angle between the sample and its class.
        scale: Multiplies the cosines.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> arcface(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), margin=60.0, scale=1.0)
        tensor(0.4741)
    """
    samples, classes = unit(embeddings), unit(weights)
    target = cosine_with_margin(samples, F.embedding(labels, classes), margin=margin)
    logits = (samples @ classes.T).scatter(1, labels[:, None], target[:, None])
    return softmax_loss(logits * scale, labels, reduction=reduction)


def cosine_with_margin(samples: Tensor, targets: Tensor, *, margin: float) -> Tensor:
    """cos(angle + margin) between the matching rows of two sets of unit vectors, B x D each; gives B.

    Where angle + margin passes 180 degrees the cosine would rise again; as in the authors' code it goes on
    falling there as cos(angle) - margin * sin(margin), with the margin in radians.

    The angle is never taken: arccos has an infinite slope at 0 and 180 degrees, and clamping its argument
    silently cuts the gradient. Instead sine and cosine come from the chord |x - w|, which is exact for small
    angles (in float32 the cosine of any angle below 0.02 degrees is 1): the gradient is right at any angle
    above zero, and zero where x equals w, the one place where it has no direction.

    Example:
        >>> x = torch.tensor([[1.0, 0.0]])
        >>> cosine_with_margin(x, x, margin=60.0), cosine_with_margin(x, -x, margin=60.0)
        (tensor([0.5000]), tensor([-1.9069]))
    """
    radians = math.radians(margin)
    chord = torch.linalg.vector_norm(samples - targets, dim=1)
    quarter = chord.square() / 4
    cosine = 1 - 2 * quarter
    # The clamp only acts next to 180 degrees, where the other branch is taken.
    sine = chord * (1 - quarter).clamp(min=torch.finfo(chord.dtype).eps).sqrt()
    within = cosine * math.cos(radians) - sine * math.sin(radians)
    beyond = cosine - radians * math.sin(radians)
    return torch.where(cosine >= -math.cos(radians), within, beyond)


def check_margin(margin: float) -> None:
    """Refuse a margin that is no angle in degrees from 0 to below 180."""
    if not 0 <= margin < 180:
        raise UsageError(f"margin is an angle in degrees, 0 or more and below 180, got {margin!r}")


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

    Example:
        >>> loss = ArcFace(num_classes=3, embedding_size=8)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        margin: float = 28.6,
        scale: float = 64.0,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_margin(margin)
        check_positive("scale", scale)
        function = partial(arcface, margin=margin, scale=scale, reduction=reduction)
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed)
