"""SphereFace: softmax with the angle to the true class multiplied by a whole number."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float, Int
from levelfield.losses import register
from levelfield.losses._classification import (
    ClassificationLoss,
    check_count,
    check_positive,
    softmax_loss,
)
from levelfield.losses._reduction import Reduction


@register(
    "sphereface",
    kind="classification",
    embedding="raw",
    paper="SphereFace: Deep Hypersphere Embedding for Face Recognition",
    year=2017,
    own_lr=True,
    loss_lr=3e-3,
    space={"margin": Int(1, 4), "scale": Float(1.0, 300.0, log=True)},
)
class SphereFace(ClassificationLoss):
    """Softmax with the angle to the true class multiplied by a whole number.

    Cross-entropy of scale * |x| * cos(angle(x, w)), with psi(angle) for the cosine at the true class.

    psi(angle) = (-1)^k cos(margin * angle) - 2k on [k pi / margin, (k+1) pi / margin] decreases from 0 to 180
    degrees. This is A-Softmax as in the paper. The authors' code introduces it by annealing. Without
    annealing, a network does not learn from scratch with ``margin`` 4: use a smaller one. Equals
    pytorch-metric-learning's; ``scale`` is an addition of that library and needed for embeddings of unit
    length.

    Example:
        >>> loss = SphereFace(num_classes=2, embedding_size=2, margin=4)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.3133)
    """

    margin: int = 4
    """Factor of the angle to the sample's class; a whole number."""
    scale: float = 1.0
    """Multiplies the logits."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_count("margin", self.margin)
        check_positive("scale", self.scale)
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        classes = l2_normalize(weights)
        index = labels[:, None]
        target = monotonic_cosine((l2_normalize(embeddings) @ classes.T).gather(1, index), self.margin)
        lengths = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
        logits = (embeddings @ classes.T).scatter(1, index, lengths * target)
        return softmax_loss(logits * self.scale, labels, reduction=self.reduction)


def monotonic_cosine(cosine: Tensor, margin: int) -> Tensor:
    """Return psi(angle) of a tensor of cosines of any shape.

    cos(margin * angle) is a Chebyshev polynomial of the cosine. So the gradient needs no arccosine and is
    finite everywhere. Only the number k of the branch comes from the angle.

    Example:
        >>> monotonic_cosine(torch.tensor([1.0, 0.0, -1.0]), 2)
        tensor([ 1., -1., -3.])
    """
    before, multiple = torch.ones_like(cosine), cosine
    for _ in range(margin - 1):
        before, multiple = multiple, 2 * cosine * multiple - before
    angle = torch.acos(cosine.detach().clamp(-1, 1))
    branch = (angle * margin / math.pi).floor().clamp(max=margin - 1)
    return (1 - 2 * (branch % 2)) * multiple - 2 * branch
