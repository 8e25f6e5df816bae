"""Correlation of metrics over many runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Correlation:
    """A correlation matrix with the names of its rows and columns.

    Attributes:
        names: The M metrics.
        matrix: float64 (M, M); NaN for a metric that never changes.
        runs: Number of runs.
    """

    names: tuple[str, ...]
    matrix: npt.NDArray[np.float64]
    runs: int

    def between(self, one: str, other: str) -> float:
        """Return the correlation of two metrics."""
        return float(self.matrix[self.names.index(one), self.names.index(other)])


def correlation(
    table: Sequence[Mapping[str, float]] | Mapping[str, Sequence[float]],
    *,
    kind: Literal["pearson", "spearman"] = "pearson",
) -> Correlation:
    """Return the correlations of all pairs of metrics over the runs of a table.

    Args:
        table: One mapping of metrics to numbers per run, such as :class:`Scores`, or one column of numbers
            per metric. Only metrics that every run has are compared.
        kind: "pearson" (of values, as in the papers) or "spearman" (of ranks).

    Example:
        >>> runs = [{"a": 1, "b": 2}, {"a": 2, "b": 4}, {"a": 4, "b": 8}]
        >>> round(correlation(runs).between("a", "b"), 6)
        1.0
    """
    columns = dict(table) if isinstance(table, Mapping) else _columns(table)
    names = tuple(columns)
    lengths = {len(column) for column in columns.values()}
    if not names or len(lengths) != 1:
        raise UsageError(
            "the runs have no metric in common, or columns differ in length; give columns of equal length"
        )
    values = np.array([columns[name] for name in names], dtype=np.float64)
    if values.shape[1] < 2:
        raise UsageError(f"a correlation needs at least 2 runs, got {values.shape[1]}; give more runs")
    if not np.isfinite(values).all():
        bad = names[int(np.argwhere(~np.isfinite(values))[0][0])]
        raise UsageError(f'"{bad}" holds NaN or infinity; leave out such runs or that metric')
    if kind == "spearman":
        from scipy.stats import rankdata  # it takes half a second of every start otherwise

        values = rankdata(values, axis=1)
    elif kind != "pearson":
        raise UsageError(f'unknown kind "{kind}"; choose from pearson, spearman')
    centered = values - values.mean(1, keepdims=True)
    length = np.linalg.norm(centered, axis=1)
    length[length <= 1e-12 * np.abs(values).max(1)] = np.nan
    matrix = np.clip(centered @ centered.T / np.outer(length, length), -1.0, 1.0)
    return Correlation(names, matrix, values.shape[1])


def _columns(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    common = [name for name in (runs[0] if runs else ()) if all(name in run for run in runs)]
    return {name: [float(run[name]) for run in runs] for name in common}
