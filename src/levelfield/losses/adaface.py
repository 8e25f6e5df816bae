"""AdaFace: a margin that favours hard samples where images are good, easy ones where they are poor."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.geometry import unit
from levelfield.losses import register
from levelfield.losses._angles import cosine_and_sine
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction
from levelfield.losses.curricularface import check_momentum, moved
from levelfield.space import Float

START_MEAN, START_STD = 20.0, 100.0
SHORTEST, LONGEST = 1e-3, 100.0
EPSILON = 1e-3


@register(
    "adaface",
    kind="classification",
    paper="AdaFace: Quality Adaptive Margin for Face Recognition",
    year=2022,
    embedding="raw",
    own_lr=True,
    loss_lr=2e-3,
    space={
        "margin": Float(0.0, 1.0),
        "concentration": Float(0.05, 1.0),
        "scale": Float(1.0, 300.0, log=True),
    },
)
class AdaFace(ClassificationLoss):
    """A margin that favours hard samples where images are good, easy ones where they are poor.

    Cross-entropy of scale * (cos(angle - margin q) - margin (1 + q)) at the sample's class and scale * cos at
    the others. q, the quality of the image, is the length of its embedding, standardised by moving averages
    of the batches' mean and standard deviation, times ``concentration`` and clipped to -1..1. No gradient
    passes q. angle - margin q is kept in 0..180 degrees.

    As in the authors' code lengths are clipped to 0.001..100, the averages start at 20 and 100, each batch in
    training mode moves them before they are used, and 0.001 is added to the standard deviation. A batch of
    one sample has none and leaves its average alone. Not taken over is that code's limit of cosines to
    0.999, which cuts the gradient of samples within 2.6 degrees of their class: nothing here needs it. The
    averages are part of the state dict.

    Example:
        >>> loss = AdaFace(num_classes=2, embedding_size=2, margin=0.5, scale=1.0, concentration=0.0).eval()
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    margin: float = 0.4
    """m, an angle in radians and a cosine at once, by the definition."""
    concentration: float = 0.333
    """h: how far lengths spread over the qualities -1..1."""
    scale: float = 64.0
    """Multiplies the cosines."""
    momentum: float = 0.99
    """How much of the averages a batch leaves as it was."""
    reduction: Reduction = "mean"
    """How the losses of the samples become one number."""

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_momentum(self.momentum)
        super().__post_init__()
        self.mean_length: Tensor
        self.std_length: Tensor
        self.register_buffer("mean_length", torch.tensor(START_MEAN))
        self.register_buffer("std_length", torch.tensor(START_STD))

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula above."""
        quality = self._quality(embeddings.detach())
        samples, classes = unit(embeddings), unit(weights)
        cosine, sine = cosine_and_sine(samples, F.embedding(labels, classes))
        target = turned(cosine, sine, -self.margin * quality) - self.margin * (1 + quality)
        logits = (samples @ classes.T).scatter(1, labels[:, None], target[:, None])
        return softmax_loss(logits * self.scale, labels, reduction=self.reduction)

    @torch.no_grad()
    def _quality(self, embeddings: Tensor) -> Tensor:
        """-1..1, of each row of B x D."""
        lengths = torch.linalg.vector_norm(embeddings, dim=1).clamp(SHORTEST, LONGEST)
        several = len(lengths) > 1
        spread = lengths.std() if several else lengths.new_zeros(())
        mean = moved(self.mean_length, lengths.mean(), momentum=self.momentum, training=self.training)
        std = moved(self.std_length, spread, momentum=self.momentum, training=self.training and several)
        quality: Tensor = ((lengths - mean) / (std + EPSILON) * self.concentration).clamp(-1, 1)
        return quality


def turned(cosine: Tensor, sine: Tensor, by: Tensor) -> Tensor:
    """cos(angle + by) from cosines and sines of angles, with angle + by kept in 0..pi; B each, in radians.

    Example:
        >>> turned(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 0.0]), torch.tensor([1.0, -1.0]))
        tensor([0.5403, 1.0000])
    """
    with torch.no_grad():
        angle = torch.atan2(sine, cosine) + by
    turn = cosine * by.cos() - sine * by.sin()
    return torch.where(angle < 0, 1.0, torch.where(angle > torch.pi, -1.0, turn))
