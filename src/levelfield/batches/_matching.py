"""Choosing the best of m random candidate batches by a score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.batches._embedded import EmbeddedSampler
from levelfield.data import Rows
from levelfield.errors import UsageError

Score = Callable[[Tensor, Tensor], Tensor]


def candidate_batches(groups: int, count: int, candidates: int, random: np.random.Generator) -> Rows:
    """Random batches of ``count`` different groups each: candidates x count.

    Example:
        >>> candidate_batches(9, 4, 3, np.random.default_rng(0)).shape
        (3, 4)
    """
    return np.stack([random.permutation(groups)[:count] for _ in range(candidates)])


class MatchingSampler(EmbeddedSampler):
    """Base of the samplers that keep the best of ``num_candidates`` random batches.

    Args:
        name: The registered name.
        labels: Class of each training sample, (n,).
        score: From all points (P x D) and candidates (m x b numbers of points) to one score each, the lower
            the better.
        batch_size: b, the rows of every batch.
        seed: Of every random choice.
        samples_per_class: The size of the groups of one class.
        candidate_set: b*, how many samples to choose from.
        num_candidates: m.
    """

    def __init__(
        self,
        name: str,
        labels: npt.ArrayLike,
        score: Score,
        *,
        batch_size: int,
        seed: int,
        samples_per_class: int,
        candidate_set: int,
        num_candidates: int,
    ) -> None:
        super().__init__(
            name,
            labels,
            batch_size=batch_size,
            seed=seed,
            samples_per_class=samples_per_class,
            candidate_set=candidate_set,
        )
        if num_candidates < 1:
            raise UsageError(f"{name}: num_candidates must be at least 1, got {num_candidates}")
        self._score = score
        self._candidates = num_candidates

    def choose(self, embeddings: Tensor, count: int, random: np.random.Generator) -> Rows:
        """The candidate with the lowest score."""
        groups, size, _ = embeddings.shape
        batches = candidate_batches(groups, count, self._candidates, random)
        points = (batches[:, :, None] * size + np.arange(size)).reshape(len(batches), count * size)
        scores = self._score(embeddings.flatten(0, 1), torch.from_numpy(points))
        best: Rows = batches[int(scores.argmin())]
        return best
