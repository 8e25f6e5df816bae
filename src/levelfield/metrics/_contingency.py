"""How two labellings of the same samples overlap, as a sparse table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Contingency:
    """Counts of samples; only cells that are not empty, so a million classes are no trouble.

    Attributes:
        cells: int64 (P,), samples that share a class and a cluster.
        cell_class: int64 (P,), the class of each cell.
        cell_cluster: int64 (P,), the cluster of each cell.
        classes: int64 (C,), samples per class; no zeros.
        clusters: int64 (K,), samples per cluster; no zeros.
    """

    cells: Counts
    cell_class: Counts
    cell_cluster: Counts
    classes: Counts
    clusters: Counts

    @property
    def total(self) -> int:
        """How many samples there are."""
        return int(self.classes.sum())


def contingency(labels: npt.ArrayLike, clusters: npt.ArrayLike) -> Contingency:
    """The table of two labellings, each (N,).

    Example:
        >>> contingency([0, 0, 1], [5, 5, 5]).cells
        array([2, 1])
    """
    _, rows, per_class = np.unique(np.asarray(labels), return_inverse=True, return_counts=True)
    _, columns, per_cluster = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    key = rows.astype(np.int64) * len(per_cluster) + columns
    codes, cells = np.unique(key, return_counts=True)
    return Contingency(
        cells=cells,
        cell_class=codes // len(per_cluster),
        cell_cluster=codes % len(per_cluster),
        classes=per_class,
        clusters=per_cluster,
    )
