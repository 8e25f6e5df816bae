"""Matching of distance distributions: batches as spread out as the data."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._embedded import Embeddings
from levelfield.batches._matching import MatchingSampler, Scores
from levelfield.data._dataset import Rows

_BLOCK_ROWS = 128


def distance_histogram_gaps(points: Embeddings, batches: Rows, *, bins: int = 50) -> Scores:
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
        >>> line = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)
        >>> distance_histogram_gaps(line, np.array([[0, 3], [1, 2]])).round(1).tolist()
        [1.3, 0.7]
    """
    centred = points - points.mean(axis=0)
    reach = float(np.sqrt(np.einsum("pd,pd->p", centred, centred).max()))
    width = 2 * reach / bins or 1.0
    scaled = centred / np.float32(width)
    whole = _cumulative(scaled, bins)
    gaps = [np.abs(_cumulative(scaled[rows], bins) - whole).sum() for rows in batches]
    return np.array(gaps) * width


def _cumulative(points: Embeddings, bins: int) -> Scores:
    """Share of pairs whose distance is below the upper edge of each bin of width 1, (bins,)."""
    squares = np.einsum("pd,pd->p", points, points)[:, None]
    ones = np.ones_like(squares)
    # One product gives |x|^2 + |y|^2 - 2xy, block by block so that it stays in the cache; each block meets
    # itself and those after it, and the latter count twice.
    left = np.hstack([-2 * points, squares, ones])
    right = np.hstack([points, ones, squares]).T
    counts = np.zeros(bins + 1)
    for start in range(0, len(points), _BLOCK_ROWS):
        squared = left[start : start + _BLOCK_ROWS] @ right[:, start:]
        bin_of = np.sqrt(np.maximum(squared, 0, out=squared), out=squared).astype(np.intp)
        counts += 2 * np.bincount(bin_of.ravel(), minlength=bins + 1)
        counts -= np.bincount(bin_of[:, : len(bin_of)].ravel(), minlength=bins + 1)
    counts[0] -= len(points)  # a point's distance to itself says nothing
    counts[bins - 1] += counts[bins]  # a distance at the very end of the range
    shares: Scores = np.cumsum(counts[:bins]) / max(counts[:bins].sum(), 1.0)
    return shares


@register(
    "ddm",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
class DistanceDistributionMatching(MatchingSampler):
    """DDM: of m random batches the one whose distances are distributed most like the candidate set's.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: b, the rows of every batch; the paper's is 112.
        seed: Of the candidate sets and batches.
        samples_per_class: Batches are made of so many samples of a class at a time; 1 ignores classes.
        candidate_set: b*, how many samples to choose from.
        num_candidates: m.
        bins: Of the distance histograms.

    Example:
        >>> from levelfield.batches.memory_bank import MemoryBank
        >>> sampler = DistanceDistributionMatching([0, 0, 1, 1], batch_size=2, seed=0)
        >>> sampler.attach(MemoryBank(4, 8))
        >>> len(next(sampler.epoch(0)))
        2
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        batch_size: int,
        seed: int,
        samples_per_class: int = 2,
        candidate_set: int = 1024,
        num_candidates: int = 10,
        bins: int = 50,
    ) -> None:
        super().__init__(
            "ddm",
            labels,
            partial(distance_histogram_gaps, bins=bins),
            batch_size=batch_size,
            seed=seed,
            samples_per_class=samples_per_class,
            candidate_set=candidate_set,
            num_candidates=num_candidates,
        )
