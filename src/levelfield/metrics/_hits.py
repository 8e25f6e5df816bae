"""What the search hands to a retrieval measure: the ranks of the relevant items."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Hits:
    """The relevant items that were found for a block of B queries, as H (query, rank) pairs.

    Every retrieval measure of the papers is a function of these. Only as many are listed as the requested
    measures need, so a measure must not look further down than its card's ``depth``.

    Attributes:
        row: int64 (H,), which query of the block, 0..B-1.
        rank: int64 (H,), the item's place in that query's ranking, from 1.
        nth: int64 (H,), how many relevant items stand at or before that place, from 1.
        relevant: int64 (B,), how many relevant items the gallery holds for each query; never 0.
        gallery: How many items each query is ranked against.

    Example:
        >>> one = torch.tensor
        >>> hits = Hits(row=one([0, 0]), rank=one([1, 4]), nth=one([1, 2]), relevant=one([2]), gallery=9)
        >>> hits.total(hits.nth / hits.rank, hits.rank <= 4)
        tensor([1.5000], dtype=torch.float64)
    """

    row: Tensor
    rank: Tensor
    nth: Tensor
    relevant: Tensor
    gallery: int

    def total(self, values: Tensor, where: Tensor) -> Tensor:
        """The sum of ``values`` (H,) over each query's hits that satisfy ``where`` (H,); float64 (B,)."""
        sums = torch.zeros(len(self.relevant), dtype=torch.float64, device=self.row.device)
        return sums.index_add_(0, self.row, torch.where(where, values.double(), 0.0))

    def count(self, where: Tensor) -> Tensor:
        """How many of each query's hits satisfy ``where`` (H,); float64 (B,)."""
        return self.total(torch.ones_like(self.rank), where)
