"""Scores of one model on the queries of a test set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Scores of one model, one entry per seed.

    Attributes:
        per_query: Value of each query by metric (R x Q); NaN for queries that cannot be scored.
        whole: Score by metric (R), for metrics without a value per query.
    """

    per_query: Mapping[str, Array]
    whole: Mapping[str, Array] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return max((len(rows) for rows in (*self.per_query.values(), *self.whole.values())), default=0)

    def scores(self, metric: str) -> Array:
        """Return the score of each seed (R)."""
        if metric in self.whole:
            return self.whole[metric]
        scores: Array = np.nanmean(self.per_query[metric], axis=1)
        return scores

    def mean_per_query(self, metric: str) -> Array:
        """Return the mean over seeds of each query's value (Q)."""
        mean: Array = self.per_query[metric].mean(axis=0)
        return mean
