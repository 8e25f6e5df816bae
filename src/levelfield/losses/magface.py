"""MagFace: the longer the embedding, the larger its margin."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.errors import UsageError
from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._angles import cosine_and_sine
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


@register(
    "magface",
    kind="classification",
    paper="MagFace: A Universal Representation for Face Recognition and Quality Assessment",
    year=2021,
    embedding="raw",
    own_lr=True,
    loss_lr=2e-3,
    space={
        "low_margin": Float(0.0, 40.0),
        "high_margin": Float(40.0, 90.0),
        "length_weight": Float(0.1, 100.0, log=True),
        "scale": Float(1.0, 300.0, log=True),
    },
)
class MagFace(ClassificationLoss):
    """The longer the embedding, the larger its margin.

    Cross-entropy of scale * cos(angle(x, w) + margin at the sample's class), where the margin grows evenly
    with the length a of the embedding, from ``low_margin`` at ``low_length`` to ``high_margin`` at
    ``high_length``, plus ``length_weight`` (1 / a + a / high_length²), which rewards length. Lengths are
    clamped to the two bounds and have no gradient beyond them.

    The paper's formula says nothing of samples more than 90 degrees from their class; as in the authors'
    default ("easy margin") they have none. ``length_weight`` is that of the authors' script; their trainer
    itself has 20. The lengths are those of their face networks: a head whose embeddings are shorter than
    ``low_length`` learns no lengths, and the loss is ``arcface`` with the low margin.

    Example:
        >>> flat = {"low_margin": 60.0, "high_margin": 60.0, "length_weight": 0.0}
        >>> loss = MagFace(num_classes=2, embedding_size=2, scale=1.0, **flat)
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    low_length: float = 10.0
    """Shorter embeddings count as this long."""
    high_length: float = 110.0
    """Longer embeddings count as this long."""
    low_margin: float = 25.8
    """In degrees, the margin at the low length."""
    high_margin: float = 45.8
    """In degrees, the margin at the high length."""
    length_weight: float = 35.0
    """Of the term that rewards length."""
    scale: float = 64.0
    """Multiplies the cosines."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        check_positive("low_length", self.low_length)
        check_positive("scale", self.scale)
        if not self.low_length < self.high_length:
            raise UsageError(
                f"low_length must be below high_length, got {self.low_length!r} and {self.high_length!r}"
            )
        if not 0 <= self.low_margin <= self.high_margin <= 90:
            raise UsageError(
                "low_margin and high_margin are angles from 0 to 90 degrees, the low one not above the high "
                f"one, got {self.low_margin!r} and {self.high_margin!r}"
            )
        super().__post_init__()

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        lengths = torch.linalg.vector_norm(embeddings, dim=1).clamp(self.low_length, self.high_length)
        low, high = math.radians(self.low_margin), math.radians(self.high_margin)
        margin = low + (high - low) * (lengths - self.low_length) / (self.high_length - self.low_length)
        samples, classes = unit(embeddings), unit(weights)
        cosine, sine = cosine_and_sine(samples, F.embedding(labels, classes))
        target = torch.where(cosine > 0, cosine * margin.cos() - sine * margin.sin(), cosine)
        logits = (samples @ classes.T).scatter(1, labels[:, None], target[:, None])
        reward = 1 / lengths + lengths / self.high_length**2
        return softmax_loss(
            logits * self.scale, labels, reduction=self.reduction
        ) + self.length_weight * reduce(reward, torch.ones_like(reward), self.reduction)
