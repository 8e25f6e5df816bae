"""SphereFace: softmax with the angle to the true class multiplied by a whole number."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._classification import (
    ClassificationLoss,
    check_count,
    check_positive,
    softmax_loss,
)
from levelfield.losses._distances import unit
from levelfield.losses._reduction import Reduction
from levelfield.space import Float, Int


def sphereface(
    embeddings: Tensor,
    labels: Tensor,
    weights: Tensor,
    *,
    margin: int = 4,
    scale: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Cross-entropy of scale * |x| * cos(angle(x, w)), with psi(angle) for the cosine at the true class.

    psi(angle) = (-1)^k cos(margin * angle) - 2k on [k pi / margin, (k+1) pi / margin] falls all the way from
    0 to 180 degrees. This is A-Softmax as the paper states it, without the annealing of its authors' code.
    Equals pytorch-metric-learning's; ``scale`` is that library's addition and is needed for embeddings of
    unit length.

    Args:
        embeddings: B x D; their length counts.
        labels: B, in 0..C-1.
        weights: C x D, of any length; normalised here.
        margin: What the angle to the sample's class is multiplied by; a whole number.
        scale: Multiplies the logits.
        reduction: How the losses of the samples become one number.

    Returns:
        A scalar.

    Example:
        >>> sphereface(torch.eye(2), torch.tensor([0, 1]), torch.eye(2), margin=4)
        tensor(0.3133)
    """
    classes = unit(weights)
    index = labels[:, None]
    target = falling_cosine((unit(embeddings) @ classes.T).gather(1, index), margin)
    lengths = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
    logits = (embeddings @ classes.T).scatter(1, index, lengths * target)
    return softmax_loss(logits * scale, labels, reduction=reduction)


def falling_cosine(cosine: Tensor, margin: int) -> Tensor:
    """psi(angle) of a tensor of cosines of any shape.

    cos(margin * angle) is a polynomial of the cosine (Chebyshev's), so no arccosine stands in the way of
    the gradient, which is finite everywhere. Only the number k of the branch comes from the angle.

    Example:
        >>> falling_cosine(torch.tensor([1.0, 0.0, -1.0]), 2)
        tensor([ 1., -1., -3.])
    """
    before, multiple = torch.ones_like(cosine), cosine
    for _ in range(margin - 1):
        before, multiple = multiple, 2 * cosine * multiple - before
    angle = torch.acos(cosine.detach().clamp(-1, 1))
    branch = (angle * margin / math.pi).floor().clamp(max=margin - 1)
    return (1 - 2 * (branch % 2)) * multiple - 2 * branch


@register(
    "sphereface",
    kind="classification",
    paper="SphereFace: Deep Hypersphere Embedding for Face Recognition",
    year=2017,
    own_lr=True,
    loss_lr=3e-3,
    space={"margin": Int(1, 4), "scale": Float(1.0, 300.0, log=True)},
)
class SphereFace(ClassificationLoss):
    """Softmax with the angle to the true class multiplied by a whole number.

    Example:
        >>> loss = SphereFace(num_classes=3, embedding_size=8, scale=30.0)
        >>> loss(torch.ones(4, 8), torch.tensor([0, 1, 2, 0])).ndim
        0
    """

    def __init__(
        self,
        *,
        num_classes: int,
        embedding_size: int,
        margin: int = 4,
        scale: float = 1.0,
        reduction: Reduction = "mean",
        seed: int = 0,
    ) -> None:
        check_count("margin", margin)
        check_positive("scale", scale)
        function = partial(sphereface, margin=margin, scale=scale, reduction=reduction)
        super().__init__(function, num_classes=num_classes, embedding_size=embedding_size, seed=seed)
