"""Contextual loss: samples of one class should have the same neighbours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import first_derivative_only, pair_masks, products, unit
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._reduction import hinge_sum
from levelfield.options import Size
from levelfield.space import Float

SLOPE = 10.0
"""The slope that the authors give to "is a neighbour", by squared distance."""


@register(
    "contextual",
    paper="Supervised Metric Learning to Rank for Retrieval via Contextual Similarity Optimization",
    year=2023,
    space={
        "contextual_weight": Float(0.0, 0.8),
        "similarity_weight": Float(0.0, 0.2),
        "epsilon": Float(0.0, 0.2),
        "pos_margin": Float(0.5, 1.0),
        "neg_margin": Float(0.0, 0.9),
    },
)
class Contextual(RankingLoss):
    """Make samples of one class have the same neighbours, beside a contrastive loss.

    ``l C + g (mean s - mean_similarity)^2 + (1 - l - g) L`` with the weights l and g of the two first parts
    and the cosine similarity s. L is the contrastive loss ``[pos_margin - s]+`` of positive and
    ``[s - neg_margin]+`` of negative pairs, each averaged over the pairs where it is not zero. C is the mean
    of ``(1 - c)^2`` over positive and ``c^2`` over negative pairs, divided by B² as in the authors' code,
    with the contextual similarity c: with N(i) the k nearest samples of i and all at most ``epsilon`` farther
    (squared distance, i among them), ``w_ij`` is zero if j is not in N(i), and otherwise the mean of the
    shares of N(i) that is in N(j) and of its complement that is not; c averages w over the k/2 nearest
    samples that have each other among them, and over both directions.

    Being a neighbour has no gradient; the authors give it the slope 10 by squared distance, everywhere, and
    so does this. The gradient is therefore not the slope of the value. The products of B x B matrices make
    it cubic in time.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
        >>> Contextual(neighbours=2, similarity_weight=0.0)(x, torch.tensor([0, 0, 1, 1]))
        tensor(0.)
    """

    neighbours: Size = 4
    """How many nearest samples, each itself among them (k in the paper): the samples per class of a batch."""
    epsilon: float = 0.05
    """Samples that are farther than the k-th by no more than this are neighbours, too."""
    contextual_weight: float = 0.4
    """The weight of the contextual part (lambda in the paper)."""
    similarity_weight: float = 0.1
    """The weight of the part that fixes the mean similarity (gamma in the paper)."""
    mean_similarity: float = 0.25
    """What that should be."""
    pos_margin: float = 0.75
    """Positives belong above this similarity."""
    neg_margin: float = 0.6
    """Negatives belong below this similarity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 2:
            raise UsageError(f"neighbours must be at least 2, the sample and another, got {self.neighbours}")
        if self.contextual_weight + self.similarity_weight > 1:
            raise UsageError(
                "contextual_weight and similarity_weight must not add up to more than 1, got "
                f"{self.contextual_weight} and {self.similarity_weight}"
            )

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The formula above."""
        similarity = products(unit(vectors))
        positive, negative = pair_masks(labels, dtype=similarity.dtype)
        pull = hinge_sum(similarity, positive, slope=-1, offset=self.pos_margin).reduced("mean_nonzero")
        push = hinge_sum(similarity, negative, slope=1, offset=-self.neg_margin).reduced("mean_nonzero")
        missed = (self._contextual_similarity(similarity) - positive).square() * (positive + negative)
        return (
            self.contextual_weight * missed.sum() / len(labels) ** 2
            + self.similarity_weight * (similarity.mean() - self.mean_similarity).square()
            + (1 - self.contextual_weight - self.similarity_weight) * (pull + push)
        )

    def _contextual_similarity(self, similarity: Tensor) -> Tensor:
        """The similarity c of all pairs, B x B."""
        size = len(similarity)
        near: Tensor = _Neighbours.apply(similarity, min(self.neighbours, size), self.epsilon)
        closest: Tensor = _Neighbours.apply(similarity, min(self.neighbours // 2, size), self.epsilon)
        number = near.sum(1, keepdim=True)
        common = products(near)
        lacking = common + (size - number - number.T)  # how many are neighbours of neither
        inside, outside = number.detach(), (size - number).detach().clamp(min=1)
        weights = (common / inside + lacking / outside) * near / 2
        mutual = closest * closest.T
        context: Tensor = _Product.apply(mutual, weights) / mutual.sum(1, keepdim=True)
        symmetric: Tensor = (context + context.T) / 2
        return symmetric


class _Neighbours(torch.autograd.Function):
    """Ones for the ``k`` nearest of each row and those at most ``epsilon`` farther; a slope by decree."""

    @staticmethod
    def forward(ctx: Any, similarity: Tensor, k: int, epsilon: float) -> Tensor:
        bound = similarity.topk(k, dim=1).values[:, -1:]  # the squared distance is 2 - 2 s
        return (similarity + epsilon / 2 >= bound).to(similarity.dtype)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * (2 * SLOPE), None, None


class _Product(torch.autograd.Function):
    """A product of two B x B matrices that autocast leaves alone, in the backward pass, too."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        with torch.autocast(left.device.type, enabled=False):
            return left @ right

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        left, right = ctx.saved_tensors
        with torch.autocast(left.device.type, enabled=False):
            return gradient @ right.T, left.T @ gradient
