"""How measures go together over many runs: the papers' metric-correlation matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from levelfield.errors import UsageError


@dataclass(frozen=True, eq=False)
class Correlation:
    """A correlation matrix with the names of its rows and columns.

    Attributes:
        names: The M measures.
        matrix: float64 (M, M); NaN where a measure never changes.
        runs: How many runs it is computed from.
    """

    names: tuple[str, ...]
    matrix: npt.NDArray[np.float64]
    runs: int

    def between(self, one: str, other: str) -> float:
        """The correlation of two measures."""
        return float(self.matrix[self.names.index(one), self.names.index(other)])


def correlation(
    table: Sequence[Mapping[str, float]] | Mapping[str, Sequence[float]],
    *,
    kind: Literal["pearson", "spearman"] = "pearson",
) -> Correlation:
    """The correlation of every two measures over the runs of a table.

    Args:
        table: One mapping of measures to numbers per run (such as :class:`Scores`), or one column of
            numbers per measure. Only measures that every run has are compared.
        kind: "pearson" (of the values, as in the papers) or "spearman" (of their ranks).

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
            "the runs have no measure in common, or columns differ in length; nothing to correlate"
        )
    values = np.array([columns[name] for name in names], dtype=np.float64)
    if values.shape[1] < 2:
        raise UsageError(f"a correlation needs at least 2 runs, got {values.shape[1]}")
    if not np.isfinite(values).all():
        bad = names[int(np.argwhere(~np.isfinite(values))[0][0])]
        raise UsageError(f'"{bad}" holds NaN or infinity; leave out such runs or that measure')
    if kind == "spearman":
        values = rankdata(values, axis=1)
    elif kind != "pearson":
        raise UsageError(f'unknown kind "{kind}"; choose from pearson, spearman')
    centred = values - values.mean(1, keepdims=True)
    length = np.linalg.norm(centred, axis=1)
    length[length <= 1e-12 * np.abs(values).max(1)] = np.nan
    matrix = np.clip(centred @ centred.T / np.outer(length, length), -1.0, 1.0)
    return Correlation(names, matrix, values.shape[1])


def _columns(runs: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    common = [name for name in (runs[0] if runs else ()) if all(name in run for run in runs)]
    return {name: [float(run[name]) for run in runs] for name in common}
