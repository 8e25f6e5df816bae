"""Frechet distance matching: batches with a mean and covariance like those of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from levelfield.samplers import register
from levelfield.samplers._matching import MatchingSampler


def frechet_distances(points: Tensor, batches: Tensor) -> Tensor:
    """Return the Frechet distances between the normal distribution of each batch and that of all points.

    The distance is |m - m*|^2 + tr(S + S* - 2 (S S*)^(1/2)). It needs no matrix square root: with the
    centered points A and Z, scaled so that S = A'A and S* = Z'Z = R'R (R from one QR decomposition), the
    eigenvalues of S S* are the squared singular values of A R'. So the trace of the root is the sum of the
    singular values.

    Args:
        points: All points, P x D.
        batches: Numbers of points, m x b, b > 1.

    Returns:
        One distance per batch, (m,), in float64.

    Example:
        >>> points = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
        >>> abs(round(frechet_distances(points, torch.tensor([[0, 1, 2, 3]])).item(), 6))
        0.0
    """
    mean, whole = _centered(points)
    root = torch.linalg.qr(whole, mode="r").R
    means, parts = _centered(points[batches])
    cross = parts @ root.T
    # Eigenvalues of the smaller Gram matrix: several times cheaper than singular values.
    gram = cross @ cross.mT if cross.shape[1] <= cross.shape[2] else cross.mT @ cross
    shared = torch.linalg.eigvalsh(gram).clamp_(min=0).sqrt_().sum(dim=1)
    traces = parts.square().sum(dim=(1, 2)) + whole.square().sum()
    gaps: Tensor = (means - mean).square().sum(dim=(1, 2)) + traces - 2 * shared
    return gaps


def _centered(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean, and deviations scaled so that their Gram matrix is the covariance; in float64."""
    precise = points.double()
    mean = precise.mean(dim=-2, keepdim=True)
    return mean, (precise - mean) / max(points.shape[-2] - 1, 1) ** 0.5


@register(
    "frd",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
@dataclass(kw_only=True, eq=False, repr=False)
class FrechetMatching(MatchingSampler):
    """FRD: of m random batches, the one with the smallest Frechet distance to the candidate set.

    Example:
        >>> from levelfield.samplers.memory_bank import MemoryBank
        >>> sampler, bank = FrechetMatching([0, 0, 1, 1], batch_size=2, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        2
    """

    name: ClassVar[str] = "frd"

    def score(self, points: Tensor, batches: Tensor) -> Tensor:
        """Return the result of :func:`frechet_distances`."""
        return frechet_distances(points, batches)
