"""Greedy coreset: batches that cover the embedding space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from levelfield.data import Rows
from levelfield.samplers import register
from levelfield.samplers._bank_samplers import CandidateSetSampler


def greedy_coreset(embeddings: Tensor, count: int, *, first: int = 0) -> Rows:
    """Return groups chosen one by one, each with the point that is farthest from all points chosen before.

    This is the greedy 2-approximation of the k-center problem: it minimizes the largest distance of a point
    to the nearest chosen point.

    Args:
        embeddings: Groups x samples per group x D.
        count: Number of groups to choose.
        first: Group to start with.

    Returns:
        Chosen groups, (count,), in the order of choice.

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
        nearest[last] = -torch.inf  # never choose a group twice, even if all distances are zero
        chosen.append(int(nearest.argmax()) // size)
    return np.array(chosen, dtype=np.int64)


@register(
    "gc",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
@dataclass(kw_only=True, eq=False, repr=False)
class GreedyCoreset(CandidateSetSampler):
    """GC: a batch of samples that are far apart, so that it covers the candidate set.

    Example:
        >>> from levelfield.samplers.memory_bank import MemoryBank
        >>> sampler, bank = GreedyCoreset([0, 0, 1, 1], batch_size=2, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        2
    """

    name: ClassVar[str] = "gc"

    def choose_groups(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """Return the greedy coreset that starts with a random group."""
        return greedy_coreset(embeddings, count, first=int(random.integers(len(embeddings))))
