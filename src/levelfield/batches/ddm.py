"""Matching of distance distributions: batches as spread out as the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from levelfield.batches import register
from levelfield.batches._matching import MatchingSampler
from levelfield.options import Size

_BLOCK_ROWS = 128


def distance_histogram_gaps(points: Tensor, batches: Tensor, *, bins: int = 50) -> Tensor:
    """Wasserstein distance between the distances inside each batch and those inside the whole set.

    Both are normalised histograms over the same bins of equal width. On a line the Wasserstein distance is
    the area between the cumulative sums, so a shift by ten bins costs ten times a shift by one.

    Args:
        points: The whole set, P x D.
        batches: Numbers of points, m x b.
        bins: Of the histogram, from 0 to twice the largest distance from the mean, which bounds them all.

    Returns:
        One gap per batch, (m,), in units of distance.

    Example:
        >>> line = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> [round(gap, 1) for gap in distance_histogram_gaps(line, torch.tensor([[0, 3], [1, 2]])).tolist()]
        [1.3, 0.7]
    """
    centred = points - points.mean(dim=0)
    reach = float(centred.square().sum(dim=1).max().sqrt())
    width = 2 * reach / bins or 1.0
    scaled = centred / width
    whole = _cumulative(scaled, bins)
    gaps = [(_cumulative(scaled[rows], bins) - whole).abs().sum() for rows in batches]
    return torch.stack(gaps) * width


def _cumulative(points: Tensor, bins: int) -> Tensor:
    """Share of pairs whose distance is below the upper edge of each bin of width 1, (bins,)."""
    squares = points.square().sum(dim=1)
    # Block by block, so that the distances stay in the cache; each block meets itself and those after it,
    # and the latter count twice.
    counts = torch.zeros(bins + 1, dtype=torch.int64)
    for start in range(0, len(points), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        squared = torch.addmm(squares[start:], points[block], points[start:].T, alpha=-2)
        bin_of = squared.add_(squares[block, None]).clamp_(min=0).sqrt_().long()
        itself = bin_of[:, : len(bin_of)].fill_diagonal_(0)
        counts += 2 * torch.bincount(bin_of.flatten(), minlength=bins + 1)
        counts -= torch.bincount(itself.flatten(), minlength=bins + 1)
    counts[0] -= len(points)  # a point's distance to itself says nothing
    counts[bins - 1] += counts[bins]  # a distance at the very end of the range
    return counts[:bins].double().cumsum(0) / max(1, len(points) * (len(points) - 1))


@register(
    "ddm",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
@dataclass(kw_only=True, eq=False, repr=False)
class DistanceDistributionMatching(MatchingSampler):
    """DDM: of m random batches the one whose distances are distributed most like the candidate set's.

    Example:
        >>> from levelfield.batches.memory_bank import MemoryBank
        >>> sampler = DistanceDistributionMatching([0, 0, 1, 1], batch_size=2, seed=0)
        >>> sampler.attach(MemoryBank(4, 8))
        >>> len(next(sampler.epoch(0)))
        2
    """

    name: ClassVar[str] = "ddm"

    bins: Size = 50
    """Of the distance histograms."""

    def score(self, points: Tensor, batches: Tensor) -> Tensor:
        """See :func:`distance_histogram_gaps`."""
        return distance_histogram_gaps(points, batches, bins=self.bins)
