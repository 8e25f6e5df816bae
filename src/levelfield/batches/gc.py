"""Greedy coreset: batches that cover the embedding space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
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


@register(
    "gc",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
@dataclass(kw_only=True, eq=False, repr=False)
class GreedyCoreset(EmbeddedSampler):
    """GC: the batch whose samples lie farthest apart, so that it covers the candidate set.

    Example:
        >>> from levelfield.batches.memory_bank import MemoryBank
        >>> sampler, bank = GreedyCoreset([0, 0, 1, 1], batch_size=2, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        2
    """

    name: ClassVar[str] = "gc"

    def choose(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """The greedy coreset that starts with a random group."""
        return greedy_coreset(embeddings, count, first=int(random.integers(len(embeddings))))
