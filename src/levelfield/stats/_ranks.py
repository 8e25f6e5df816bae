"""Ranks of methods over cases (datasets, networks, sizes), and tournaments that sum them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.core.errors import UsageError


@dataclass(frozen=True)
class TournamentStanding:
    """Result of a method in a tournament of ranks.

    Attributes:
        method: Name of the method.
        total: Sum of its ranks.
        mean: Mean rank.
        std: Sample standard deviation of its ranks; NaN for a single case.
        ranks: Rank in each case.
    """

    method: str
    total: float
    mean: float
    std: float
    ranks: tuple[float, ...]


def ranks(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rank of each of k methods in each of n cases (n x k); the highest score has rank 1.

    Equal scores get the mean of their ranks.

    Example:
        >>> ranks(np.array([[0.5, 0.9, 0.5]])).tolist()
        [[2.5, 1.0, 2.5]]
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.size == 0:
        raise UsageError(f"scores must be a table of cases x methods, got shape {table.shape}")
    if not np.isfinite(table).all():
        raise UsageError(
            "scores must be finite, got NaN or infinity; leave out cases without a score of every method"
        )
    higher = (table[:, None, :] > table[:, :, None]).sum(axis=2)
    equal = (table[:, None, :] == table[:, :, None]).sum(axis=2)
    result: NDArray[np.float64] = higher + (equal + 1) / 2
    return result


def tournament(cases: Mapping[str, Mapping[str, float]]) -> list[TournamentStanding]:
    """Return sum, mean and standard deviation of each method's ranks, best method first.

    Args:
        cases: Scores by case and method; higher is better. Every case must have the same methods.

    Example:
        >>> standings = tournament({"cub": {"a": 3.0, "b": 1.0}, "cars": {"a": 2.0, "b": 1.0}})
        >>> [(s.method, s.total, s.mean, s.std) for s in standings]
        [('a', 2.0, 1.0, 0.0), ('b', 4.0, 2.0, 0.0)]
    """
    methods, table = score_matrix(cases)
    ranked = ranks(table)
    standings = [
        TournamentStanding(
            method=method,
            total=float(column.sum()),
            mean=float(column.mean()),
            std=float(column.std(ddof=1)) if len(column) > 1 else math.nan,
            ranks=tuple(column.tolist()),
        )
        for method, column in zip(methods, ranked.T, strict=True)
    ]
    return sorted(standings, key=lambda standing: (standing.total, standing.method))


def score_matrix(cases: Mapping[str, Mapping[str, float]]) -> tuple[list[str], NDArray[np.float64]]:
    """Return the methods (k) and their scores (cases x k)."""
    if not cases:
        raise UsageError("a comparison of ranks needs at least one case, got none")
    methods = list(next(iter(cases.values())))
    for case, scores in cases.items():
        missing = sorted(set(methods) ^ set(scores))
        if missing:
            raise UsageError(
                f"every case needs the same methods; {case} differs in {', '.join(missing)}; leave them out"
            )
    rows = [[scores[method] for method in methods] for scores in cases.values()]
    return methods, np.array(rows, dtype=np.float64)
