"""Choosing the best of m random candidate batches by a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from levelfield.batches._embedded import EmbeddedSampler
from levelfield.data import Rows
from levelfield.errors import UsageError
from levelfield.options import Size


def candidate_batches(groups: int, count: int, candidates: int, random: np.random.Generator) -> Rows:
    """Random batches of ``count`` different groups each: candidates x count.

    Example:
        >>> candidate_batches(9, 4, 3, np.random.default_rng(0)).shape
        (3, 4)
    """
    return np.stack([random.permutation(groups)[:count] for _ in range(candidates)])


@dataclass(kw_only=True, eq=False, repr=False)
class MatchingSampler(EmbeddedSampler):
    """Base of the samplers that keep the best of ``num_candidates`` random batches; each has a ``score``."""

    num_candidates: Size = 10
    """m, how many random batches to compare."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_candidates < 1:
            raise UsageError(f"{self.name}: num_candidates must be at least 1, got {self.num_candidates}")

    def score(self, points: Tensor, batches: Tensor) -> Tensor:
        """One score for each batch (m x b numbers of points) out of all points (P x D): (m,), low is good."""
        raise NotImplementedError

    def choose(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """The candidate with the lowest score."""
        groups, size, _ = embeddings.shape
        batches = candidate_batches(groups, count, self.num_candidates, random)
        points = (batches[:, :, None] * size + np.arange(size)).reshape(len(batches), count * size)
        scores = self.score(embeddings.flatten(0, 1), torch.from_numpy(points))
        best: Rows = batches[int(scores.argmin())]
        return best
