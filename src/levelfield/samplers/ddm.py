"""Distance distribution matching: batches whose distances are distributed like those of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from levelfield.core.options import Size
from levelfield.samplers import register
from levelfield.samplers._matching import MatchingSampler

_BLOCK_ROWS = 128


def distance_histogram_gaps(points: Tensor, batches: Tensor, *, bins: int = 50) -> Tensor:
    """Return the Wasserstein distances between the distance histogram of each batch and that of all points.

    The histograms are normalized and have the same bins of equal width. In one dimension the Wasserstein
    distance is the area between the cumulative histograms.

    Args:
        points: All points, P x D.
        batches: Numbers of points, m x b.
        bins: Number of bins, from 0 to twice the largest distance from the mean, which is an upper bound.

    Returns:
        One value per batch, (m,), in units of distance.

    Example:
        >>> line = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> [round(gap, 1) for gap in distance_histogram_gaps(line, torch.tensor([[0, 3], [1, 2]])).tolist()]
        [1.3, 0.7]
    """
    centered = points - points.mean(dim=0)
    reach = float(centered.square().sum(dim=1).max().sqrt())
    width = 2 * reach / bins or 1.0
    scaled = centered / width
    whole = _cumulative(scaled, bins)
    gaps = [(_cumulative(scaled[rows], bins) - whole).abs().sum() for rows in batches]
    return torch.stack(gaps) * width


def _cumulative(points: Tensor, bins: int) -> Tensor:
    """Return the fraction of pairs whose distance is below the upper edge of each bin of width 1, (bins,)."""
    squares = points.square().sum(dim=1)
    # Compute block by block, so that the distances stay in the CPU cache. Each block is compared with itself
    # and with later blocks; the latter count twice.
    counts = torch.zeros(bins + 1, dtype=torch.int64)
    for start in range(0, len(points), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        squared = torch.addmm(squares[start:], points[block], points[start:].T, alpha=-2)
        bin_of = squared.add_(squares[block, None]).clamp_(min=0).sqrt_().long()
        itself = bin_of[:, : len(bin_of)].fill_diagonal_(0)
        counts += 2 * torch.bincount(bin_of.flatten(), minlength=bins + 1)
        counts -= torch.bincount(itself.flatten(), minlength=bins + 1)
    counts[0] -= len(points)  # without the distance of a point to itself
    counts[bins - 1] += counts[bins]  # distances at the end of the range
    return counts[:bins].double().cumsum(0) / max(1, len(points) * (len(points) - 1))


@register(
    "ddm",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
@dataclass(kw_only=True, eq=False, repr=False)
class DistanceDistributionMatching(MatchingSampler):
    """DDM: of m random batches, the one whose distance histogram is closest to that of the candidate set.

    Example:
        >>> from levelfield.samplers.memory_bank import MemoryBank
        >>> sampler = DistanceDistributionMatching([0, 0, 1, 1], batch_size=2, seed=0)
        >>> sampler.attach(MemoryBank(4, 8))
        >>> len(next(sampler.epoch(0)))
        2
    """

    name: ClassVar[str] = "ddm"

    bins: Size = 50
    """Number of bins of the distance histograms."""

    def score(self, points: Tensor, batches: Tensor) -> Tensor:
        """Return the result of :func:`distance_histogram_gaps`."""
        return distance_histogram_gaps(points, batches, bins=self.bins)
