"""Soft ranks of positives, in B x B memory for any number of positives."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from levelfield.core.geometry import first_derivative_only, iterate_chunks


class PositiveRanks(NamedTuple):
    """Anchor and positive of each pair, and the positive's rank among all and among positives (P each)."""

    anchor: Tensor
    positive: Tensor
    overall: Tensor
    among_positives: Tensor


def soft_ranks(
    similarity: Tensor, positive: Tensor, *, temperature: float, rank_anchor: bool = False
) -> PositiveRanks:
    """Return soft ranks: one plus the number of samples that are more similar to the anchor.

    Each comparison is a sigmoid of the difference.

    Args:
        similarity: B x B.
        positive: B x B mask of (anchor, positive).
        temperature: Temperature of the sigmoids.
        rank_anchor: Whether the anchor itself is among the samples that are ranked.

    Example:
        >>> s = torch.tensor([[1.0, 0.0, 0.9], [0.0, 1.0, 0.5], [0.9, 0.5, 1.0]])
        >>> mask = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=torch.bool)
        >>> soft_ranks(s, mask, temperature=0.01)  # sample 2 ranks before the positive
        PositiveRanks(anchor=tensor([0]), positive=tensor([1]), overall=tensor([2.]),
        among_positives=tensor([1.]))
    """
    anchor, other = positive.nonzero(as_tuple=True)
    overall, among_positives = _SoftRanks.apply(similarity, positive, anchor, other, temperature, rank_anchor)
    return PositiveRanks(anchor, other, overall, among_positives)


class _SoftRanks(torch.autograd.Function):
    """Soft ranks that repeat the comparisons in the backward pass instead of keeping P x B of them."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any,
        similarity: Tensor,
        positive: Tensor,
        anchor: Tensor,
        other: Tensor,
        temperature: float,
        rank_anchor: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(similarity, positive, anchor, other)
        ctx.temperature, ctx.rank_anchor = temperature, rank_anchor
        overall = similarity.new_ones(len(anchor))
        among_positives = similarity.new_ones(len(anchor))
        for part in iterate_chunks(len(anchor), len(similarity)):
            above = _comparisons(similarity, anchor[part], other[part], temperature, rank_anchor)
            overall[part] += above.sum(1)
            among_positives[part] += above.mul_(positive[anchor[part]]).sum(1)
        return overall, among_positives

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, overall: Tensor, among_positives: Tensor) -> tuple[Tensor | None, ...]:
        similarity, positive, anchor, other = ctx.saved_tensors
        gradient = torch.zeros_like(similarity)
        for part in iterate_chunks(len(anchor), len(similarity)):
            above = _comparisons(similarity, anchor[part], other[part], ctx.temperature, ctx.rank_anchor)
            slope = above.mul_(1 - above).div_(ctx.temperature)
            slope *= torch.addcmul(overall[part, None], positive[anchor[part]], among_positives[part, None])
            gradient.index_add_(0, anchor[part], slope)
            gradient[anchor[part], other[part]] -= slope.sum(1)
        return gradient, None, None, None, None, None


def _comparisons(
    similarity: Tensor, anchor: Tensor, other: Tensor, temperature: float, rank_anchor: bool
) -> Tensor:
    """Return soft comparisons: a column ranks above ``other`` for ``anchor`` (row).

    They are zero for ``other`` itself, and for the anchor unless ``rank_anchor``.
    """
    above = torch.sub(similarity[anchor], similarity[anchor, other][:, None]).div_(temperature).sigmoid_()
    above.scatter_(1, other[:, None] if rank_anchor else torch.stack([anchor, other], dim=1), 0.0)
    return above
