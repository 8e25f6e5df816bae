"""Frechet distance matching: batches with the mean and the covariance of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from levelfield.batches import register
from levelfield.batches._matching import MatchingSampler


def frechet_distances(points: Tensor, batches: Tensor) -> Tensor:
    """Frechet distance between the normal distributions of each batch and of the whole set.

    It is |m - m*|^2 + tr(S + S* - 2 (S S*)^(1/2)). No matrix square root is needed: with the centred points
    A and Z, scaled so that S = A'A and S* = Z'Z = R'R (R from a QR decomposition, once), the eigenvalues of
    S S* are the squared singular values of A R', so the trace of the root is the sum of the singular values.

    Args:
        points: The whole set, P x D.
        batches: Numbers of points, m x b, b > 1.

    Returns:
        One distance per batch, (m,), in float64.

    Example:
        >>> points = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
        >>> abs(round(frechet_distances(points, torch.tensor([[0, 1, 2, 3]])).item(), 6))
        0.0
    """
    mean, whole = _centred(points)
    root = torch.linalg.qr(whole, mode="r").R
    means, parts = _centred(points[batches])
    cross = parts @ root.T
    # The squared singular values from the smaller Gram matrix: eigenvalues are several times cheaper.
    gram = cross @ cross.mT if cross.shape[1] <= cross.shape[2] else cross.mT @ cross
    shared = torch.linalg.eigvalsh(gram).clamp_(min=0).sqrt_().sum(dim=1)
    traces = parts.square().sum(dim=(1, 2)) + whole.square().sum()
    gaps: Tensor = (means - mean).square().sum(dim=(1, 2)) + traces - 2 * shared
    return gaps


def _centred(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean, and deviations scaled so that their Gram matrix is the (unbiased) covariance; in float64."""
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
    """FRD: of m random batches the one nearest to the candidate set by Frechet distance.

    Example:
        >>> from levelfield.batches.memory_bank import MemoryBank
        >>> sampler, bank = FrechetMatching([0, 0, 1, 1], batch_size=2, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        2
    """

    name: ClassVar[str] = "frd"

    def score(self, points: Tensor, batches: Tensor) -> Tensor:
        """See :func:`frechet_distances`."""
        return frechet_distances(points, batches)
