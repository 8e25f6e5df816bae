"""Greedy coreset: batches that cover the embedding space."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.batches import register
from levelfield.batches._embedded import EmbeddedSampler
from levelfield.data import Rows


def greedy_coreset(embeddings: Tensor, count: int, *, first: int = 0) -> Rows:
    """Choose groups one by one, each holding the point that is farthest from all chosen so far.

    This is the greedy 2-approximation of the smallest covering radius
    max over points of the distance to the nearest chosen point.

    Args:
        embeddings: Groups x samples in a group x D.
        count: Groups to choose.
        first: The group to begin with.

    Returns:
        The chosen groups, (count,), in the order of choice.

    Example:
        >>> greedy_coreset(torch.tensor([0.0, 1.0, 2.0, 10.0]).reshape(4, 1, 1), 3).tolist()
        [0, 3, 2]
    """
    groups, size, _ = embeddings.shape
    points = embeddings.flatten(0, 1)
    squares = points.square().sum(dim=1)
    nearest = torch.full((groups * size,), torch.inf, dtype=points.dtype)
    chosen = [first]
    for _ in range(count - 1):
        last = slice(chosen[-1] * size, (chosen[-1] + 1) * size)
        apart = torch.addmm(squares[last], points, points[last].T, alpha=-2)
        nearest = torch.minimum(nearest, apart.amin(dim=1) + squares)
        nearest[last] = -torch.inf  # also where rounding or duplicates put others at distance zero
        chosen.append(int(nearest.argmax()) // size)
    return np.array(chosen, dtype=np.int64)


def covering_radius(embeddings: Tensor, chosen: Rows) -> float:
    """The largest distance from any point to the nearest chosen one: what the coreset makes small.

    Args:
        embeddings: Groups x samples in a group x D.
        chosen: Numbers of the chosen groups.

    Example:
        >>> covering_radius(torch.tensor([0.0, 1.0, 2.0, 10.0]).reshape(4, 1, 1), np.array([0, 3]))
        2.0
    """
    points = embeddings.flatten(0, 1)
    centres = embeddings[torch.from_numpy(chosen)].flatten(0, 1)
    return float(torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1).max())


@register(
    "gc",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
class GreedyCoreset(EmbeddedSampler):
    """GC: the batch whose samples lie farthest apart, so that it covers the candidate set.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: b, the rows of every batch; the paper's is 112.
        seed: Of the candidate sets, and of the sample that each coreset starts with.
        samples_per_class: With the farthest sample so many of its class join the batch; 1 ignores classes.
        candidate_set: b*, how many samples to choose from.

    Example:
        >>> from levelfield.batches.memory_bank import MemoryBank
        >>> sampler, bank = GreedyCoreset([0, 0, 1, 1], batch_size=2, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
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
    ) -> None:
        super().__init__(
            "gc",
            labels,
            batch_size=batch_size,
            seed=seed,
            samples_per_class=samples_per_class,
            candidate_set=candidate_set,
        )

    def choose(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """The greedy coreset that starts with a random group."""
        return greedy_coreset(embeddings, count, first=int(random.integers(len(embeddings))))
