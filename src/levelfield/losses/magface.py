"""MagFace: a margin that grows with the length of the embedding."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._angles import cosine_and_sine
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction, reduce


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
    """Softmax with a margin that grows with the length of the embedding.

    Cross-entropy of scale * cos(angle(x, w) + margin at the sample's class), where the margin grows linearly
    with the length a of the embedding, from ``low_margin`` at ``low_length`` to ``high_margin`` at
    ``high_length``, plus ``length_weight`` (1 / a + a / high_length²), which rewards length. Lengths are
    clamped to the two bounds and have no gradient beyond them.

    The paper does not define the margin of samples more than 90 degrees from their class; as in the authors'
    default ("easy margin") they have none. ``length_weight`` is that of the authors' script; their trainer
    has 20. The length bounds are those of their face networks. A head whose embeddings are shorter than
    ``low_length`` learns no lengths, and the loss is ``arcface`` with the low margin: a warning then tells
    the lengths.

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
    """Margin at the low length, in degrees."""
    high_margin: float = 45.8
    """Margin at the high length, in degrees."""
    length_weight: float = 35.0
    """Weight of the term that rewards length."""
    scale: float = 64.0
    """Multiplies the cosines."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("low_length", self.low_length)
        check_positive("scale", self.scale)
        if not self.low_length < self.high_length:
            raise UsageError(
                "low_length must be below high_length, got "
                f"{self.low_length!r} and {self.high_length!r}; correct one of them"
            )
        if not 0 <= self.low_margin <= self.high_margin <= 90:
            raise UsageError(
                "low_margin and high_margin must be angles from 0 to 90 degrees, the low one not above the "
                f"high one, got {self.low_margin!r} and {self.high_margin!r}; correct them"
            )
        super().__post_init__()
        self._checked = False

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        lengths = torch.linalg.vector_norm(embeddings, dim=1)
        self._warn_if_short(lengths.detach())
        lengths = lengths.clamp(self.low_length, self.high_length)
        low, high = math.radians(self.low_margin), math.radians(self.high_margin)
        margin = low + (high - low) * (lengths - self.low_length) / (self.high_length - self.low_length)
        samples, classes = l2_normalize(embeddings), l2_normalize(weights)
        cosine, sine = cosine_and_sine(samples, F.embedding(labels, classes))
        target = torch.where(cosine > 0, cosine * margin.cos() - sine * margin.sin(), cosine)
        logits = (samples @ classes.T).scatter(1, labels[:, None], target[:, None])
        reward = 1 / lengths + lengths / self.high_length**2
        return softmax_loss(
            logits * self.scale, labels, reduction=self.reduction
        ) + self.length_weight * reduce(reward, torch.ones_like(reward), self.reduction)

    def _warn_if_short(self, lengths: Tensor) -> None:
        """Warn once if the first batch has no embedding that is longer than the low length."""
        if torch.compiler.is_compiling() or self._checked or not len(lengths):
            return
        self._checked = True
        if bool(lengths.max() <= self.low_length):
            warnings.warn(
                f"magface: the longest embedding of the batch is {float(lengths.max()):.3g}, below "
                f"low_length {self.low_length:g}; lengths have no effect, and the loss is arcface with the "
                "low margin. Set low_length and high_length to the lengths of your embeddings",
                stacklevel=2,
            )
