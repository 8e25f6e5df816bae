"""AdaFace: a margin that adapts to image quality."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.geometry import l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._angles import cosine_and_sine
from levelfield.losses._classification import ClassificationLoss, check_positive, softmax_loss
from levelfield.losses._reduction import Reduction
from levelfield.losses.curricularface import check_momentum, update_moving_average

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
    """Softmax with a margin that emphasizes hard samples of good images and easy samples of poor images.

    Cross-entropy of scale * (cos(angle - margin q) - margin (1 + q)) at the sample's class and scale * cos at
    the others. q is the quality of the image: the length of its embedding, standardized by moving averages of
    the batches' mean and standard deviation, times ``concentration`` and clipped to -1..1. No gradient flows
    through q. angle - margin q is kept in 0..180 degrees.

    As in the authors' code, lengths are clipped to 0.001..100, the averages start at 20 and 100, each batch
    in training mode updates them before they are used, and 0.001 is added to the standard deviation. A batch
    of one sample has no standard deviation and leaves its average unchanged. That code also limits cosines to
    0.999, which cuts the gradient of samples within 2.6 degrees of their class; this one does not need that.
    The averages are part of the state dict.

    Example:
        >>> loss = AdaFace(num_classes=2, embedding_size=2, margin=0.5, scale=1.0, concentration=0.0).eval()
        >>> loss.compute(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.4741)
    """

    margin: float = 0.4
    """m; used both as an angle in radians and as a cosine, as in the paper."""
    concentration: float = 0.333
    """h: scale of the standardized lengths before they are clipped to -1..1."""
    scale: float = 64.0
    """Multiplies the cosines."""
    momentum: float = 0.99
    """Share of the old moving average that a batch keeps."""
    reduction: Reduction = "mean"
    """Reduction over the samples."""

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        check_momentum(self.momentum)
        super().__post_init__()
        self.mean_length: Tensor
        self.std_length: Tensor
        self.register_buffer("mean_length", torch.tensor(START_MEAN))
        self.register_buffer("std_length", torch.tensor(START_STD))

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        quality = self._quality(embeddings.detach())
        samples, classes = l2_normalize(embeddings), l2_normalize(weights)
        cosine, sine = cosine_and_sine(samples, F.embedding(labels, classes))
        target = rotate_cosine(cosine, sine, -self.margin * quality) - self.margin * (1 + quality)
        logits = (samples @ classes.T).scatter(1, labels[:, None], target[:, None])
        return softmax_loss(logits * self.scale, labels, reduction=self.reduction)

    @torch.no_grad()
    def _quality(self, embeddings: Tensor) -> Tensor:
        """Return the quality, -1..1, of each row of B x D."""
        lengths = torch.linalg.vector_norm(embeddings, dim=1).clamp(SHORTEST, LONGEST)
        several = len(lengths) > 1
        spread = lengths.std() if several else lengths.new_zeros(())
        mean = update_moving_average(
            self.mean_length, lengths.mean(), momentum=self.momentum, training=self.training
        )
        std = update_moving_average(
            self.std_length, spread, momentum=self.momentum, training=self.training and several
        )
        quality: Tensor = ((lengths - mean) / (std + EPSILON) * self.concentration).clamp(-1, 1)
        return quality


def rotate_cosine(cosine: Tensor, sine: Tensor, by: Tensor) -> Tensor:
    """Return cos(angle + by) from cosines and sines of angles, with angle + by kept in 0..pi radians; B each.

    Example:
        >>> rotate_cosine(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 0.0]), torch.tensor([1.0, -1.0]))
        tensor([0.5403, 1.0000])
    """
    with torch.no_grad():
        angle = torch.atan2(sine, cosine) + by
    turn = cosine * by.cos() - sine * by.sin()
    return torch.where(angle < 0, 1.0, torch.where(angle > torch.pi, -1.0, turn))
