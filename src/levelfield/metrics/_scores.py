"""Result of ``evaluate``: scores, values per query, intervals and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.seeds import numpy_generator


@dataclass(frozen=True, eq=False)
class Scores(Mapping[str, float]):
    """Scores by metric name, in the requested order.

    Attributes:
        means: The scores; ``scores["map_at_r"]`` is ``scores.means["map_at_r"]``.
        queries: Number of queries scored.
        skipped: Number of queries left out because the gallery holds no (other) item of their class.
        per_query: One float64 array (N,) per retrieval metric, NaN for skipped queries; empty unless
            requested.
        intervals: 95% bootstrap intervals of the retrieval metrics; empty unless requested.
        spread: Standard deviation of the clustering metrics over the seeds of k-means.
        index_recall: Share of the true nearest items that an approximate index finds; None for exact search.
        notes: Remarks to print next to the scores.

    Example:
        >>> Scores({"map_at_r": 0.5}, queries=10, skipped=0)["map_at_r"]
        0.5
    """

    means: Mapping[str, float]
    queries: int
    skipped: int
    per_query: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    index_recall: float | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        if name not in self.means:
            raise UsageError(
                f'score "{name}" was not computed; name it in metrics{did_you_mean(name, self.means)}'
            )
        return self.means[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.means)

    def __len__(self) -> int:
        return len(self.means)

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the values per query, ready for JSON; NaN and infinity become None."""
        return {
            "scores": {name: value if isfinite(value) else None for name, value in self.means.items()},
            "intervals": {name: list(bounds) for name, bounds in self.intervals.items()},
            "spread": dict(self.spread),
            "queries": self.queries,
            "skipped": self.skipped,
            "index_recall": self.index_recall,
            "notes": list(self.notes),
        }


def bootstrap_intervals(
    values: Mapping[str, npt.NDArray[np.float64]], *, resamples: int, seed: int, confidence: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Return percentile intervals of the mean of each metric's values (N,); NaN values are left out.

    All metrics use the same resampled queries. Queries of one class are not independent. So the interval
    shows the effect of the choice of queries, not of the choice of classes.

    Example:
        >>> low, high = bootstrap_intervals({"x": np.arange(100.0)}, resamples=200, seed=0)["x"]
        >>> low < 49.5 < high
        True
    """
    if not values:
        return {}
    table = np.stack(list(values.values()))
    table = table[:, ~np.isnan(table[0])]
    random = numpy_generator("metrics", "bootstrap", seed)
    count = table.shape[1]
    means = np.empty((resamples, len(table)))
    for number in range(resamples):
        means[number] = table[:, random.integers(count, size=count)].mean(1)
    edges = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return {name: (float(low), float(high)) for name, low, high in zip(values, *edges, strict=True)}
