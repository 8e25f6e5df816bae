"""Negatives in the order of their distance: a range of distances is then a range of positions.

This is what keeps mining triplets at O(B^2) memory: instead of a cubic mask over (anchor, positive,
negative) there are two positions for each (anchor, positive) pair, found by binary search.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.geometry import PositivePairs


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
        table = pairs.table(distance, fill=0.0)
        positions = torch.searchsorted(self.distance, table, right=past_equal)
        return positions[pairs.anchor, pairs.slot]


def rank_negatives(distance: Tensor, negative: Tensor) -> RankedNegatives:
    """Sort each row's negatives by their distance.

    Example:
        >>> distance = torch.tensor([[0.0, 3.0, 2.0]])
        >>> rank_negatives(distance, torch.tensor([[False, True, True]])).order.tolist()
        [[2, 1, 0]]
    """
    return RankedNegatives(*distance.masked_fill(~negative, torch.inf).sort(dim=1))
