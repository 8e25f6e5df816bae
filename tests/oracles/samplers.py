"""Slow, obvious versions of the selection criteria of embedding samplers."""

from __future__ import annotations

import numpy as np
from scipy import linalg, stats


def covering_radius(points: np.ndarray, chosen: list[int]) -> float:
    """Largest distance of any point to its nearest chosen point."""
    return max(min(float(np.linalg.norm(point - points[c])) for c in chosen) for point in points)


def greedy_coreset(points: np.ndarray, count: int, first: int) -> list[int]:
    """Farthest-point traversal, one point at a time."""
    chosen = [first]
    while len(chosen) < count:
        gaps = [min(float(np.linalg.norm(point - points[c])) for c in chosen) for point in points]
        chosen.append(int(np.argmax(gaps)))
    return chosen


def wasserstein_of_distances(points: np.ndarray, batch: np.ndarray) -> float:
    """Wasserstein distance of the pairwise distances, without histograms."""

    def all_distances(rows: np.ndarray) -> list[float]:
        return [
            float(np.linalg.norm(rows[i] - rows[j]))
            for i in range(len(rows))
            for j in range(len(rows))
            if i != j
        ]

    return float(stats.wasserstein_distance(all_distances(points[batch]), all_distances(points)))


def frechet_distance(points: np.ndarray, batch: np.ndarray) -> float:
    """Frechet distance, by the matrix square root of the product of the covariances."""
    points = points.astype(np.float64)
    part = points[batch]
    one, other = np.cov(part.T), np.cov(points.T)
    gap = part.mean(axis=0) - points.mean(axis=0)
    root = linalg.sqrtm(one @ other)
    return float(gap @ gap + np.trace(one + other - 2 * root.real))
