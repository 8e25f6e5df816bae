"""Clusters of a space, by seeded k-means, and how they overlap with its classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Counts = npt.NDArray[np.int64]

BLOCK_BYTES = 64 << 20
ROUNDS = 256  # k-means++ draws one centre per round; beyond this many centres it draws several


def kmeans(rows: Tensor, k: int, generator: torch.Generator, *, steps: int = 100) -> Tensor:
    """The cluster (N,), 0..k-1, of each of the rows (N, D); the same seed gives the same clusters.

    It starts from k-means++ centres and takes Lloyd's steps, in blocks.

    Args:
        rows: float32 (N, D).
        k: How many clusters; at most N.
        generator: A CPU generator; the rows may be on any device.
        steps: The largest number of Lloyd's steps; it stops when no sample changes its cluster.

    Example:
        >>> kmeans(torch.tensor([[0.0], [0.1], [5.0]]), 2, torch.Generator().manual_seed(0)).unique().tolist()
        [0, 1]
    """
    centres = _first_centres(rows, k, generator)
    cluster, away = _nearest(rows, centres)
    for _ in range(steps):
        centres = _means(rows, cluster, away, k)
        before = cluster
        cluster, away = _nearest(rows, centres)
        if torch.equal(before, cluster):
            break
    return cluster


def _first_centres(rows: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """k-means++: rows drawn with a chance proportional to the squared distance from the centres so far."""
    chosen = [_draw(torch.ones(len(rows), dtype=torch.float64), 1, generator)]
    _, away = _nearest(rows, rows[chosen[0].to(rows.device)])
    batch = -(-k // ROUNDS)
    while (missing := k - sum(map(len, chosen))) > 0:
        fresh = _draw(away.double().cpu(), min(batch, missing), generator)
        chosen.append(fresh)
        away = torch.minimum(away, _nearest(rows, rows[fresh.to(rows.device)])[1])
    return rows[torch.cat(chosen).to(rows.device)]


def _draw(weights: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``count`` row numbers with the given weights; any rows if only duplicates are left (all weights 0)."""
    if float(weights.sum()) == 0:
        weights = torch.ones_like(weights)
    edges = torch.cumsum(weights, 0)
    at = torch.rand(count, generator=generator, dtype=torch.float64) * edges[-1]
    return torch.searchsorted(edges, at, right=True).clamp(max=len(weights) - 1)


def _nearest(rows: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of each row (N,), the first of equals, and the squared distance to it (N,)."""
    half = centres.square().sum(1) / 2
    height = max(1, BLOCK_BYTES // (4 * len(centres)))
    cluster = torch.empty(len(rows), dtype=torch.int64, device=rows.device)
    away = torch.empty(len(rows), device=rows.device)
    for start in range(0, len(rows), height):
        block = rows[start : start + height]
        best = torch.addmm(half, block, centres.T, beta=-1).max(1)
        cluster[start : start + height] = best.indices
        away[start : start + height] = (block.square().sum(1) - 2 * best.values).clamp_(min=0)
    return cluster, away


def _means(rows: Tensor, cluster: Tensor, away: Tensor, k: int) -> Tensor:
    """The mean (k, D) of each cluster; an empty one moves to a row that is far from its own centre."""
    sums = torch.zeros(k, rows.shape[1], dtype=torch.float64, device=rows.device)
    sums.index_add_(0, cluster, rows.double())
    count = torch.bincount(cluster, minlength=k)
    centres = (sums / count.clamp(min=1)[:, None]).to(rows.dtype)
    empty = (count == 0).nonzero()[:, 0]
    if len(empty):
        centres[empty] = rows[away.argsort(descending=True, stable=True)[: len(empty)]]
    return centres


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
