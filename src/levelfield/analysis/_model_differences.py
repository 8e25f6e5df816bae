"""Classes and queries on which two models differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassDifference:
    """Mean scores of two models on one class.

    Attributes:
        name: Name of the class.
        queries: Number of scored queries.
        first: Mean score of the first model.
        second: Mean score of the second model.
    """

    name: str
    queries: int
    first: float
    second: float

    @property
    def difference(self) -> float:
        """Difference of the means, first - second."""
        return self.first - self.second


@dataclass(frozen=True)
class QueryDifference:
    """Scores of two models on one query.

    Attributes:
        row: Row of the query.
        name: Name of the query, such as the path of its image; "" if it has none.
        class_name: Class of the query; "" if it has none.
        first: Score of the first model, mean over seeds.
        second: Score of the second model.
    """

    row: int
    name: str
    class_name: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        """Difference of the scores, first - second."""
        return self.first - self.second


def class_differences(
    first: Array, second: Array, *, classes: NDArray[Any], limit: int | None
) -> list[ClassDifference]:
    """Return the classes with the largest difference of mean scores, without those that do not differ.

    Args:
        first: Value of each query (Q) by the first model; NaN if it was not scored.
        second: The same by the second model.
        classes: Class of each query (Q).
        limit: Largest number of classes; None for all.

    Example:
        >>> one, other = np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
        >>> found = class_differences(one, other, classes=np.array(["a", "a", "b"]), limit=9)
        >>> [(each.name, each.queries, each.difference) for each in found]
        [('a', 2, 0.5)]
    """
    scored = np.isfinite(first) & np.isfinite(second) if len(first) else np.zeros(0, dtype=bool)
    if not scored.any():
        return []
    names, member = np.unique(classes[scored], return_inverse=True)
    counts = np.bincount(member)
    means = [np.bincount(member, weights=values[scored]) / counts for values in (first, second)]
    gaps = np.abs(means[0] - means[1])
    order = np.lexsort((np.arange(len(names)), -counts, -gaps))[:limit]
    return [
        ClassDifference(str(names[k]), int(counts[k]), float(means[0][k]), float(means[1][k]))
        for k in order
        if gaps[k] > 0
    ]


def query_differences(
    first: Array,
    second: Array,
    *,
    classes: NDArray[Any] | None,
    names: Sequence[str] | None,
    limit: int | None,
) -> list[QueryDifference]:
    """Return the queries with the largest difference, without those that do not differ.

    Args:
        first: Value of each query (Q) by the first model; NaN if it was not scored.
        second: The same by the second model.
        classes: Class of each query (Q), or None.
        names: Name of each query (Q), or None.
        limit: Largest number of queries; None for all.

    Example:
        >>> one, other = np.array([1.0, np.nan, 0.0]), np.array([1.0, 0.0, 0.5])
        >>> query_differences(one, other, classes=None, names=None, limit=9)
        [QueryDifference(row=2, name='', class_name='', first=0.0, second=0.5)]
    """
    gaps = np.nan_to_num(np.abs(first - second))
    order = np.argsort(-gaps, kind="stable")[:limit]
    return [
        QueryDifference(
            row=int(k),
            name="" if names is None else str(names[k]),
            class_name="" if classes is None else str(classes[k]),
            first=float(first[k]),
            second=float(second[k]),
        )
        for k in order
        if gaps[k] > 0
    ]
