"""SoftTriple: softmax over classes that have several centers each."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import first_derivative_only, l2_normalize
from levelfield.core.options import Size
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
    "soft_triple",
    kind="classification",
    paper="SoftTriple Loss: Deep Metric Learning Without Triplet Sampling",
    year=2019,
    own_lr=True,
    loss_lr=1e-4,
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={
        "la": Float(1.0, 100.0, log=True),
        "gamma": Float(0.01, 100.0, log=True),
        "reg_weight": Float(0.0, 1.0),
        "margin": Float(0.0, 1.0),
        "centers": Int(1, 20),
    },
)
class SoftTriple(ClassificationLoss):
    """Softmax over classes that have several centers each.

    Cross-entropy of la * (S - margin at the sample's class), plus a term that merges the centers of a class.

    S(x, c) = sum over the centers w of class c of softmax(x.w / gamma) * x.w. ("Revisiting Training
    Strategies" prints eq. 16 without the last factor; this follows the original paper.) Equals
    pytorch-metric-learning's with its SparseCentersRegularizer weighted by ``reg_weight``, except for
    the constant under the root, which is 1e-5 here as in the authors' code.

    Initial centers have the standard deviation of the authors' code, 1 / sqrt(3 * classes * centers).

    Example:
        >>> centers = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> labels = torch.tensor([0, 1])
        >>> options = {"la": 1.0, "reg_weight": 0.0, "margin": 0.0, "centers": 2}
        >>> loss = SoftTriple(num_classes=2, embedding_size=2, **options)
        >>> loss.compute(torch.eye(2), labels, centers)
        tensor(0.3133)
    """

    la: float = 20.0
    """Multiplies the similarities."""
    gamma: float = 0.1
    """Divides the similarities in the softmax over centers.

    The optima of the "Reality Check", 19 to 59, make that softmax almost flat.
    """
    reg_weight: float = 0.2
    """Weight of :func:`center_distance_penalty`; tau in the paper."""
    margin: float = 0.01
    """Subtracted from the similarity to the sample's class; delta in the paper."""
    centers: Size = 10
    """Centers per class; K in the paper."""
    reduction: Reduction = "mean"
    """Reduction over the samples, before the term is added."""

    def __post_init__(self) -> None:
        check_count("centers", self.centers)
        check_positive("la", self.la)
        check_positive("gamma", self.gamma)
        if not self.reg_weight >= 0:
            raise UsageError(f"reg_weight must be 0 or more, got {self.reg_weight!r}; correct it")
        super().__post_init__()

    def vectors_per_class(self) -> int:
        """Return the number of centers per class."""
        return self.centers

    def init_std(self) -> float:
        """Return the standard deviation of the authors' initial centers."""
        return 1 / math.sqrt(3 * self.num_classes * self.centers)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples, vectors = l2_normalize(embeddings), l2_normalize(weights)
        similarities: Tensor = _SoftMaximum.apply(samples, vectors, self.centers, self.gamma)
        penalty = similarities.new_full((len(labels), 1), -self.margin)
        logits = similarities.T.scatter_add(1, labels[:, None], penalty) * self.la
        loss = softmax_loss(logits, labels, reduction=self.reduction)
        return (
            loss + self.reg_weight * center_distance_penalty(vectors, self.centers)
            if self.centers > 1 and self.reg_weight
            else loss
        )


def center_distance_penalty(vectors: Tensor, centers: int) -> Tensor:
    """Return half the mean distance between two centers of a class.

    Args:
        vectors: (C * centers) x D, of unit length.
        centers: Centers per class, at least 2.

    Example:
        >>> center_distance_penalty(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), 2)
        tensor(1.0000)
    """
    result: Tensor = _CenterDistancePenalty.apply(vectors.view(-1, centers, vectors.shape[1]))
    return result


class _CenterDistancePenalty(torch.autograd.Function):
    """Half the mean of sqrt(2 - 2 v.w + 1e-5) over the pairs of each group of C x K x D."""

    @staticmethod
    def forward(ctx: Any, grouped: Tensor) -> Tensor:
        roots = (grouped @ grouped.transpose(1, 2)).mul_(-2).add_(2 + 1e-5).sqrt_()
        inverse = roots.reciprocal()
        for matrix in (roots, inverse):
            matrix.diagonal(dim1=1, dim2=2).zero_()
        ctx.ordered_pairs = len(grouped) * grouped.shape[1] * (grouped.shape[1] - 1)
        ctx.save_for_backward(grouped, inverse)
        half_mean: Tensor = roots.sum() / (2 * ctx.ordered_pairs)
        return half_mean

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        grouped, inverse = ctx.saved_tensors
        slopes: Tensor = inverse @ grouped
        return slopes.mul_(-gradient / ctx.ordered_pairs)


class _SoftMaximum(torch.autograd.Function):
    """Soft maximum S (C x B) of the similarities of samples B x D to the centers (C * K) x D of a class.

    With z = x.w / gamma, p its softmax over the K centers of a class and Z = sum p z, the result is gamma Z
    and its slope p (1 + z - Z). Only the C * K * B slopes are saved, in the memory of the similarities.
    """

    @staticmethod
    def forward(ctx: Any, samples: Tensor, vectors: Tensor, centers: int, gamma: float) -> Tensor:
        slopes = (vectors @ (samples / gamma).T).view(len(vectors) // centers, centers, len(samples))
        shares = torch.softmax(slopes, dim=1)
        result = slopes.mul_(shares).sum(dim=1)
        slopes.addcmul_(shares, (1 - result)[:, None])
        ctx.save_for_backward(samples, vectors, slopes)
        return result.mul_(gamma)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        samples, vectors, slopes = ctx.saved_tensors
        steep = (slopes * gradient[:, None]).view(len(vectors), len(samples))
        with torch.autocast(samples.device.type, enabled=False):
            return steep.T @ vectors, steep @ samples, None, None
