"""Negatives sorted by distance, so that a range of distances is a range of positions.

This keeps triplet mining at O(B^2) memory: two positions per (anchor, positive) pair, found by binary
search, replace a B x B x B mask over (anchor, positive, negative).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.core.geometry import PositivePairs


@dataclass(frozen=True)
class RankedNegatives:
    """Negatives of each anchor, nearest first. Other samples follow at infinite distance.

    Attributes:
        distance: Sorted distances, B x B, ascending along each row.
        order: Rows of the batch in that order, B x B.
    """

    distance: Tensor
    order: Tensor

    def count_nearer(self, pairs: PositivePairs, distance: Tensor, *, past_equal: bool) -> Tensor:
        """Return the number of negatives of each pair's anchor that are nearer than ``distance``, (P,).

        Args:
            pairs: P positive pairs.
            distance: One finite distance per pair, (P,).
            past_equal: Also count negatives at exactly this distance.
        """
        table = pairs.table(distance, fill=0.0)
        positions = torch.searchsorted(self.distance, table, right=past_equal)
        return positions[pairs.anchor, pairs.slot]


def rank_negatives(distance: Tensor, negative: Tensor) -> RankedNegatives:
    """Return the negatives of each row, sorted by distance.

    Example:
        >>> distance = torch.tensor([[0.0, 3.0, 2.0]])
        >>> rank_negatives(distance, torch.tensor([[False, True, True]])).order.tolist()
        [[2, 1, 0]]
    """
    return RankedNegatives(*distance.masked_fill(~negative, torch.inf).sort(dim=1))
