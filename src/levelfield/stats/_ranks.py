"""Ranks of methods over cases (datasets, networks, sizes), and the tournament that sums them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.errors import UsageError


@dataclass(frozen=True)
class Standing:
    """Where a method ends in a tournament; ``std`` is the sample deviation, NaN for a single case."""

    method: str
    total: float
    mean: float
    std: float
    ranks: tuple[float, ...]


def ranks(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Rank of each of k methods in each of n cases: ``scores`` (n x k) gives (n x k), 1 for the highest.

    Equal scores share the mean of their ranks.

    Example:
        >>> ranks(np.array([[0.5, 0.9, 0.5]])).tolist()
        [[2.5, 1.0, 2.5]]
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise UsageError(f"scores must be a table of cases x methods, got shape {table.shape}")
    if not np.isfinite(table).all():
        raise UsageError("scores must be finite, got NaN or infinity; leave cases that lack a method out")
    higher = (table[:, None, :] > table[:, :, None]).sum(axis=2)
    equal = (table[:, None, :] == table[:, :, None]).sum(axis=2)
    result: NDArray[np.float64] = higher + (equal + 1) / 2
    return result


def tournament(cases: Mapping[str, Mapping[str, float]]) -> list[Standing]:
    """Sum, mean and standard deviation of ranks, best method first.

    Args:
        cases: Scores by case and method, higher is better; every case must hold the same methods.

    Example:
        >>> standings = tournament({"cub": {"a": 3.0, "b": 1.0}, "cars": {"a": 2.0, "b": 1.0}})
        >>> [(s.method, s.total, s.mean, s.std) for s in standings]
        [('a', 2.0, 1.0, 0.0), ('b', 4.0, 2.0, 0.0)]
    """
    methods, table = as_table(cases)
    ranked = ranks(table)
    standings = [
        Standing(
            method=method,
            total=float(column.sum()),
            mean=float(column.mean()),
            std=float(column.std(ddof=1)) if len(column) > 1 else math.nan,
            ranks=tuple(column.tolist()),
        )
        for method, column in zip(methods, ranked.T, strict=True)
    ]
    return sorted(standings, key=lambda standing: (standing.total, standing.method))


def as_table(cases: Mapping[str, Mapping[str, float]]) -> tuple[list[str], NDArray[np.float64]]:
    """The methods (k) and their scores (cases x k)."""
    if not cases:
        raise UsageError("a comparison of ranks needs at least one case")
    methods = list(next(iter(cases.values())))
    for case, scores in cases.items():
        missing = sorted(set(methods) ^ set(scores))
        if missing:
            raise UsageError(
                f"every case needs the same methods; {case} differs in {', '.join(missing)}; leave them out"
            )
    rows = [[scores[method] for method in methods] for scores in cases.values()]
    return methods, np.array(rows, dtype=np.float64)
