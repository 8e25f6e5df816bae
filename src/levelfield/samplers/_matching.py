"""Base class of the samplers that choose the best of m random candidate batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.options import Size
from levelfield.data import Rows
from levelfield.samplers._bank_samplers import CandidateSetSampler


def draw_candidate_batches(groups: int, count: int, candidates: int, random: np.random.Generator) -> Rows:
    """Return random batches of ``count`` different groups each: candidates x count.

    Example:
        >>> draw_candidate_batches(9, 4, 3, np.random.default_rng(0)).shape
        (3, 4)
    """
    return np.stack([random.permutation(groups)[:count] for _ in range(candidates)])


@dataclass(kw_only=True, eq=False, repr=False)
class MatchingSampler(CandidateSetSampler):
    """Base of the samplers that choose the best of ``num_candidates`` random batches; implement ``score``."""

    num_candidates: Size = 10
    """Number of random batches to compare, m."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_candidates < 1:
            raise UsageError(f"{self.name}: num_candidates must be at least 1, got {self.num_candidates}")

    def score(self, points: Tensor, batches: Tensor) -> Tensor:
        """Return one score per batch, (m,); lower is better.

        Args:
            points: Embeddings of the candidate set, P x D.
            batches: Numbers of points, m x b.
        """
        raise NotImplementedError

    def choose_groups(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """Return the groups of the candidate batch with the lowest score."""
        groups, size, _ = embeddings.shape
        batches = draw_candidate_batches(groups, count, self.num_candidates, random)
        points = (batches[:, :, None] * size + np.arange(size)).reshape(len(batches), count * size)
        scores = self.score(embeddings.flatten(0, 1), torch.from_numpy(points))
        best: Rows = batches[int(scores.argmin())]
        return best
