"""Contextual loss: samples of one class should have the same neighbors."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from levelfield.core.errors import UsageError
from levelfield.core.geometry import (
    dot_products,
    first_derivative_only,
    l2_normalize,
    pair_masks,
    plus_transpose,
)
from levelfield.core.options import Size
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._reduction import hinge_sum

SLOPE = 10.0
"""Slope by squared distance that the authors assign to the neighbor indicator."""

DENSE = 10
"""A product with a matrix that has more than one in this many entries is computed densely."""


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
    and so does this loss. The gradient is therefore not the slope of the value. The time is quadratic in B
    times the number of neighbors; it is cubic where nearly all samples are neighbors.

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
        nearest = similarity.detach().topk(min(self.neighbors, size), dim=1).values
        near: Tensor = _Neighbors.apply(similarity, nearest[:, -1:], self.epsilon)
        half = min(self.neighbors // 2, size)
        closest: Tensor = _Neighbors.apply(similarity, nearest[:, half - 1 : half], self.epsilon)
        result: Tensor = _Context.apply(near, closest)
        return result


class _Neighbors(torch.autograd.Function):
    """Ones for the nearest of each row, and those at most ``epsilon`` farther; assigned slope."""

    @staticmethod
    def forward(ctx: Any, similarity: Tensor, bound: Tensor, epsilon: float) -> Tensor:
        return (similarity + epsilon / 2 >= bound).to(similarity.dtype)  # squared distances are 2 - 2 s

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * (2 * SLOPE), None, None


class _Context(torch.autograd.Function):
    """Contextual similarity from the two neighbor matrices, with its gradient in the same pass.

    Neighborhoods are small, so every product of B x B matrices has a factor with few entries.
    """

    @staticmethod
    def forward(ctx: Any, near: Tensor, closest: Tensor) -> Tensor:
        number = near.sum(1, keepdim=True)
        rest = (len(near) - number).clamp_(min=1)
        neighborhoods = SparseRows.of(near)
        shares = neighborhoods.multiply(near.T.contiguous()).mul_((1 / number + 1 / rest) / 2)
        shares.add_((len(near) - number) / (2 * rest)).addcmul_(1 / rest, number.T, value=-0.5)
        mutual = closest.T.contiguous().mul_(closest)
        partners = mutual.sum(1, keepdim=True)
        mutuals = SparseRows.of(mutual)
        context = mutuals.multiply(shares * near).div_(partners)
        ctx.save_for_backward(near, closest, number, rest, shares, partners, context)
        ctx.sparse = neighborhoods, mutuals
        return plus_transpose(context).div_(2)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        near, closest, number, rest, shares, partners, context = ctx.saved_tensors
        neighborhoods, mutuals = ctx.sparse
        slope = plus_transpose(gradient).div_(2 * partners)
        of_mutual = neighborhoods.scaled(shares).multiply(slope.T.contiguous())  # transposed
        of_mutual.sub_((slope * context).sum(1))
        of_closest = plus_transpose(of_mutual).mul_(closest.T.contiguous())
        of_weights = mutuals.multiply(slope)  # mutual is symmetric
        of_near = of_weights * shares
        counted = of_weights.mul_(near).mul_(0.5 / rest)
        of_near -= (counted.sum(1) + counted.sum(0))[:, None]
        of_common = plus_transpose(counted.mul_(1 + rest / number))
        of_near += SparseRows.of(of_common).multiply(near)
        return of_near, of_closest


class SparseRows(NamedTuple):
    """Matrix N x M as the columns and values of its entries that are not zero, row by row.

    A matrix with many entries stays as it is: then a dense product is faster.
    """

    rows: Tensor
    columns: Tensor
    starts: Tensor
    values: Tensor
    dense: Tensor | None

    @classmethod
    def of(cls, matrix: Tensor) -> SparseRows:
        """Return the entries of a matrix."""
        row, column = matrix.nonzero(as_tuple=True)
        if DENSE * len(row) > matrix.numel() or matrix.dtype not in (torch.float32, torch.float64):
            return cls(row, column, row, matrix, matrix)
        counts = torch.bincount(row, minlength=len(matrix))
        return cls(row, column, counts.cumsum(0) - counts, matrix[row, column], None)

    def scaled(self, factors: Tensor) -> SparseRows:
        """Return the elementwise product with a matrix of the same shape (N x M).

        Example:
            >>> double = SparseRows.of(torch.eye(32)).scaled(torch.full((32, 32), 2.0))
            >>> double.multiply(torch.ones(32, 1)).sum()
            tensor(64.)
        """
        if self.dense is not None:
            return self._replace(dense=self.dense * factors)
        return self._replace(values=self.values * factors[self.rows, self.columns])

    def multiply(self, right: Tensor) -> Tensor:
        """Return the product with an M x K matrix, without autocast.

        Example:
            >>> SparseRows.of(torch.eye(32)).multiply(torch.ones(32, 1)).sum()
            tensor(32.)
        """
        with torch.autocast(right.device.type, enabled=False):
            if self.dense is not None:
                return self.dense @ right
            return embedding_bag(self.columns, right, self.starts, mode="sum", per_sample_weights=self.values)
