"""Negatives in the order of their distance: a range of distances is then a range of positions.

This is what keeps mining triplets at O(B^2) memory: instead of a cubic mask over (anchor, positive,
negative) there are two positions for each (anchor, positive) pair, found by binary search.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PositivePairs:
    """All positive pairs of a batch, sorted by anchor.

    Attributes:
        anchor: (P,) rows.
        positive: (P,) rows of the same class.
        slot: (P,) the how-manieth positive of its anchor it is; ``(anchor, slot)`` addresses a B x K table.
        slots: K, the largest number of positives that an anchor has.
    """

    anchor: Tensor
    positive: Tensor
    slot: Tensor
    slots: int


def positive_pairs(positive: Tensor) -> PositivePairs:
    """List the pairs that the mask ``positive`` (B x B) marks.

    Example:
        >>> positive_pairs(torch.tensor([[False, True], [True, False]])).positive.tolist()
        [1, 0]
    """
    anchor, other = positive.nonzero(as_tuple=True)
    counts = positive.sum(dim=1)
    first = counts.cumsum(0) - counts
    slot = torch.arange(len(anchor), device=anchor.device) - first[anchor]
    return PositivePairs(anchor, other, slot, int(counts.max()))


@dataclass(frozen=True)
class RankedNegatives:
    """The negatives of each anchor, nearest first; what is no negative lies at infinity, behind them.

    Attributes:
        distance: B x B, ascending along each row.
        order: B x B, the rows of the batch in that order.
    """

    distance: Tensor
    order: Tensor

    def position(self, pairs: PositivePairs, distance: Tensor, *, past_equal: bool) -> Tensor:
        """How many negatives of each pair's anchor are nearer than ``distance`` (P,).

        Args:
            pairs: P positive pairs.
            distance: One finite distance per pair.
            past_equal: Count the negatives at exactly this distance too.
        """
        table = distance.new_zeros((len(self.distance), pairs.slots))
        table[pairs.anchor, pairs.slot] = distance
        found = torch.searchsorted(self.distance, table, right=past_equal)
        return found[pairs.anchor, pairs.slot]


def rank_negatives(distance: Tensor, negative: Tensor) -> RankedNegatives:
    """Sort each row's negatives by their distance.

    Example:
        >>> distance = torch.tensor([[0.0, 3.0, 2.0]])
        >>> rank_negatives(distance, torch.tensor([[False, True, True]])).order.tolist()
        [[2, 1, 0]]
    """
    return RankedNegatives(*distance.masked_fill(~negative, torch.inf).sort(dim=1))
