"""Result of ``evaluate``: scores, values per query, intervals and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError, did_you_mean


@dataclass(frozen=True, eq=False)
class Scores(Mapping[str, float]):
    """Scores by metric name, in the requested order.

    Attributes:
        means: The scores; ``scores["map_at_r"]`` is ``scores.means["map_at_r"]``.
        queries: Number of queries scored.
        skipped: Number of queries left out because the gallery holds no (other) item of their class.
        per_query: One float64 array (N,) per retrieval metric, NaN for skipped queries; empty unless
            requested.
        intervals: 95% intervals of the retrieval metrics for other classes of this kind; empty unless
            requested.
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


def class_intervals(
    values: Mapping[str, npt.NDArray[np.float64]], classes: npt.NDArray[Any], *, confidence: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Return intervals of the mean of each metric's values (N,), for other classes of this kind.

    Queries of one class are not independent, so the variance is that between classes: the interval is the one
    that verdicts use. NaN values are left out. There is no interval if all queries are of one class.

    Example:
        >>> easy = np.repeat([0.2, 0.8, 0.4, 0.6], 100)
        >>> low, high = class_intervals({"x": easy}, np.repeat([0, 1, 2, 3], 100))["x"]
        >>> round(low, 2), round(high, 2)
        (0.09, 0.91)
    """
    from levelfield.stats import judge, score_table

    found = {}
    for name, each in values.items():
        table = score_table({name: each[None]}, classes=classes, fixed=[name])
        (estimate,) = judge(table, alpha=1 - confidence).estimates
        if isfinite(estimate.low):
            found[name] = (estimate.low, estimate.high)
    return found
