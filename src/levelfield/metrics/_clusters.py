"""Seeded k-means clusters, and their contingency table with the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Counts = npt.NDArray[np.int64]

BLOCK_BYTES = 64 << 20
ROUNDS = 256  # k-means++ draws one center per round; with more centers than this it draws several


def kmeans(rows: Tensor, k: int, generator: torch.Generator, *, steps: int = 100) -> Tensor:
    """Return the cluster (N,), 0..k-1, of each of the rows (N, D); the same seed gives the same clusters.

    It starts from k-means++ centers and takes Lloyd's steps, block by block.

    Args:
        rows: float32 (N, D).
        k: Number of clusters; at most N.
        generator: CPU generator; the rows may be on any device.
        steps: Maximum number of Lloyd's steps; it stops earlier when no sample changes its cluster.

    Example:
        >>> kmeans(torch.tensor([[0.0], [0.1], [5.0]]), 2, torch.Generator().manual_seed(0)).unique().tolist()
        [0, 1]
    """
    centers = _first_centers(rows, k, generator)
    cluster, away = _nearest(rows, centers)
    for _ in range(steps):
        centers = _means(rows, cluster, away, k)
        before = cluster
        cluster, away = _nearest(rows, centers)
        if torch.equal(before, cluster):
            break
    return cluster


def _first_centers(rows: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """Return k-means++ centers: rows drawn in proportion to the squared distance from the centers so far."""
    chosen = [_draw(torch.ones(len(rows), dtype=torch.float64), 1, generator)]
    _, away = _nearest(rows, rows[chosen[0].to(rows.device)])
    batch = -(-k // ROUNDS)
    while (missing := k - sum(map(len, chosen))) > 0:
        fresh = _draw(away.double().cpu(), min(batch, missing), generator)
        chosen.append(fresh)
        away = torch.minimum(away, _nearest(rows, rows[fresh.to(rows.device)])[1])
    return rows[torch.cat(chosen).to(rows.device)]


def _draw(weights: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` row numbers by weight; uniformly if all weights are 0 (only duplicates left)."""
    if float(weights.sum()) == 0:
        weights = torch.ones_like(weights)
    edges = torch.cumsum(weights, 0)
    at = torch.rand(count, generator=generator, dtype=torch.float64) * edges[-1]
    return torch.searchsorted(edges, at, right=True).clamp(max=len(weights) - 1)


def _nearest(rows: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row (N,), the first of ties, and the squared distance to it (N,)."""
    half = centers.square().sum(1) / 2
    height = max(1, BLOCK_BYTES // (4 * len(centers)))
    cluster = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    away = torch.empty(len(rows), device=rows.device)
    for start in range(0, len(rows), height):
        block = rows[start : start + height]
        best = torch.addmm(half, block, centers.T, beta=-1).max(1)
        cluster[start : start + height] = best.indices
        away[start : start + height] = (block.square().sum(1) - 2 * best.values).clamp_(min=0)
    return cluster, away


def _means(rows: Tensor, cluster: Tensor, away: Tensor, k: int) -> Tensor:
    """Return the mean (k, D) of each cluster; an empty cluster moves to a row far from its own center."""
    sums = torch.zeros(k, rows.shape[1], dtype=torch.float64, device=rows.device)
    sums.index_add_(0, cluster, rows.double())
    count = torch.bincount(cluster, minlength=k)
    centers = (sums / count.clamp(min=1)[:, None]).to(rows.dtype)
    empty = (count == 0).nonzero()[:, 0]
    if len(empty):
        centers[empty] = rows[away.argsort(descending=True, stable=True)[: len(empty)]]
    return centers


@dataclass(frozen=True)
class Contingency:
    """Contingency table of classes and clusters; only nonempty cells, so a million classes fit in memory.

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
        """Number of samples."""
        return int(self.classes.sum())


def contingency(labels: npt.ArrayLike, clusters: npt.ArrayLike) -> Contingency:
    """Return the contingency table of two labelings, each (N,).

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
