"""What ``evaluate`` returns: the scores, and what one should know besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Scores(Mapping[str, float]):
    """Scores by name, in the order in which they were asked for.

    Attributes:
        values: The scores; ``scores["map_at_r"]`` is short for ``scores.values_by_name["map_at_r"]``.
        queries: How many queries were scored.
        skipped: How many queries were left out because the gallery holds no other item of their class.
        per_query: One float64 array (N,) per retrieval measure; NaN for queries that were left out.
            Empty unless asked for.
        notes: Remarks that belong next to the scores.
    """

    values_by_name: Mapping[str, float]
    queries: int
    skipped: int
    per_query: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)
