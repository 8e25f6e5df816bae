"""Soft ranks of positives, in B x B memory however many positives there are."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from levelfield.geometry import first_derivative_only, parts


class Ranks(NamedTuple):
    """Of each positive pair: its two ends, and the positive's rank among all and among positives (P each)."""

    anchor: Tensor
    positive: Tensor
    overall: Tensor
    among_positives: Tensor


def soft_ranks(similarity: Tensor, positive: Tensor, *, temperature: float) -> Ranks:
    """One plus how many others are more similar to the anchor, each by a sigmoid of the difference.

    Args:
        similarity: B x B.
        positive: B x B mask of (anchor, positive).
        temperature: Of the sigmoids.

    Example:
        >>> s = torch.tensor([[1.0, 0.0, 0.9], [0.0, 1.0, 0.5], [0.9, 0.5, 1.0]])
        >>> mask = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=torch.bool)
        >>> soft_ranks(s, mask, temperature=0.01)  # sample 2 comes before the positive
        Ranks(anchor=tensor([0]), positive=tensor([1]), overall=tensor([2.]), among_positives=tensor([1.]))
    """
    anchor, other = positive.nonzero(as_tuple=True)
    overall, among_positives = _SoftRanks.apply(similarity, positive, anchor, other, temperature)
    return Ranks(anchor, other, overall, among_positives)


class _SoftRanks(torch.autograd.Function):
    """Compares again in the backward pass instead of keeping P x B comparisons."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes by position
        ctx: Any, similarity: Tensor, positive: Tensor, anchor: Tensor, other: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(similarity, positive, anchor, other)
        ctx.temperature = temperature
        overall = similarity.new_ones(len(anchor))
        among_positives = similarity.new_ones(len(anchor))
        for part in parts(len(anchor), len(similarity)):
            above = _comparisons(similarity, anchor[part], other[part], temperature)
            overall[part] += above.sum(1)
            among_positives[part] += above.mul_(positive[anchor[part]]).sum(1)
        return overall, among_positives

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, overall: Tensor, among_positives: Tensor) -> tuple[Tensor, None, None, None, None]:
        similarity, positive, anchor, other = ctx.saved_tensors
        gradient = torch.zeros_like(similarity)
        for part in parts(len(anchor), len(similarity)):
            above = _comparisons(similarity, anchor[part], other[part], ctx.temperature)
            slope = above.mul_(1 - above).div_(ctx.temperature)
            slope *= torch.addcmul(overall[part, None], positive[anchor[part]], among_positives[part, None])
            gradient.index_add_(0, anchor[part], slope)
            gradient[anchor[part], other[part]] -= slope.sum(1)
        return gradient, None, None, None, None


def _comparisons(similarity: Tensor, anchor: Tensor, other: Tensor, temperature: float) -> Tensor:
    """How much each sample (columns) is above ``other`` as seen from ``anchor`` (rows); neither counts."""
    above = torch.sub(similarity[anchor], similarity[anchor, other][:, None]).div_(temperature).sigmoid_()
    above.scatter_(1, torch.stack([anchor, other], dim=1), 0.0)
    return above
