"""Contextual loss: samples of one class should have the same neighbors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import dot_products, first_derivative_only, l2_normalize, pair_masks
from levelfield.core.options import Size
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._reduction import hinge_sum

SLOPE = 10.0
"""Slope by squared distance that the authors assign to the neighbor indicator."""


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
    """Make samples of one class have the same neighbors; with a contrastive loss.

    ``l C + g (mean s - mean_similarity)^2 + (1 - l - g) L`` with the weights l and g of the first two parts
    and the cosine similarity s. L is the contrastive loss ``[pos_margin - s]+`` of positive and ``[s -
    neg_margin]+`` of negative pairs, each averaged over the pairs where it is not zero. C is the sum of ``(1
    - c)^2`` over positive and ``c^2`` over negative pairs, divided by B² as in the authors' code; c is the
    contextual similarity. N(i) holds the k nearest samples of i, i included, and all samples at most
    ``epsilon`` farther (squared distance). ``w_ij`` is zero if j is not in N(i). Otherwise it is the mean of
    two shares: of N(i) that is in N(j), and of the complement of N(i) that is not in N(j). c averages w over
    the
        k/2
    nearest samples that are neighbors of each other, and over both directions.

    The neighbor indicator has no gradient. The authors assign it the slope 10 by squared distance everywhere,
    and so does this loss. The gradient is therefore not the slope of the value. The products of B x B
    matrices make the time cubic in B.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
        >>> Contextual(neighbors=2, similarity_weight=0.0)(x, torch.tensor([0, 0, 1, 1]))
        tensor(0.)
    """

    neighbors: Size = 4
    """Number of nearest samples, the sample included (k in the paper): the samples per class of a batch."""
    epsilon: float = 0.05
    """Samples farther than the k-th by at most this are neighbors too."""
    contextual_weight: float = 0.4
    """Weight of the contextual part (lambda in the paper)."""
    similarity_weight: float = 0.1
    """Weight of the part that fixes the mean similarity (gamma in the paper)."""
    mean_similarity: float = 0.25
    """Target of the mean similarity."""
    pos_margin: float = 0.75
    """Positives should be above this similarity."""
    neg_margin: float = 0.6
    """Negatives should be below this similarity."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbors < 2:
            raise UsageError(
                f"neighbors must be at least 2 (it counts the sample), got {self.neighbors}; correct it"
            )
        if self.contextual_weight + self.similarity_weight > 1:
            raise UsageError(
                "contextual_weight and similarity_weight must not add up to more than 1, got "
                f"{self.contextual_weight} and {self.similarity_weight}; lower one of them"
            )

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors))
        positive, negative = pair_masks(labels, dtype=similarity.dtype)
        pull = hinge_sum(similarity, positive, slope=-1, offset=self.pos_margin).reduce("mean_nonzero")
        push = hinge_sum(similarity, negative, slope=1, offset=-self.neg_margin).reduce("mean_nonzero")
        missed = (self._contextual_similarity(similarity) - positive).square() * (positive + negative)
        return (
            self.contextual_weight * missed.sum() / len(labels) ** 2
            + self.similarity_weight * (similarity.mean() - self.mean_similarity).square()
            + (1 - self.contextual_weight - self.similarity_weight) * (pull + push)
        )

    def _contextual_similarity(self, similarity: Tensor) -> Tensor:
        """Return the similarity c of all pairs, B x B."""
        size = len(similarity)
        near: Tensor = _Neighbors.apply(similarity, min(self.neighbors, size), self.epsilon)
        closest: Tensor = _Neighbors.apply(similarity, min(self.neighbors // 2, size), self.epsilon)
        number = near.sum(1, keepdim=True)
        common = dot_products(near)
        lacking = common + (size - number - number.T)  # number of samples that are neighbors of neither
        inside, outside = number.detach(), (size - number).detach().clamp(min=1)
        weights = (common / inside + lacking / outside) * near / 2
        mutual = closest * closest.T
        context: Tensor = _Product.apply(mutual, weights) / mutual.sum(1, keepdim=True)
        symmetric: Tensor = (context + context.T) / 2
        return symmetric


class _Neighbors(torch.autograd.Function):
    """Ones for the ``k`` nearest of each row and those at most ``epsilon`` farther; assigned slope."""

    @staticmethod
    def forward(ctx: Any, similarity: Tensor, k: int, epsilon: float) -> Tensor:
        bound = similarity.topk(k, dim=1).values[:, -1:]  # the squared distance is 2 - 2 s
        return (similarity + epsilon / 2 >= bound).to(similarity.dtype)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * (2 * SLOPE), None, None


class _Product(torch.autograd.Function):
    """Product of two B x B matrices without autocast, also in the backward pass."""

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
