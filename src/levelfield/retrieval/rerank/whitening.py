"""PCA whitening: rotation to the principal components and scaling to equal variance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Whitening:
    """Fitted whitening: ``normalize((vectors - mean) @ projection)``.

    Attributes:
        mean: Mean vector, (F,).
        projection: F x D; columns are the principal components, each divided by its standard deviation.
    """

    mean: Tensor
    projection: Tensor

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return unit vectors (N x D) of vectors (N x F)."""
        return F.normalize((vectors - self.mean) @ self.projection, dim=-1)


def fit_whitening(vectors: Tensor, *, size: int | None = None, power: float = 1.0) -> Whitening:
    """Fit a whitening to ``vectors`` (N x F). Use development data, never the test set.

    Args:
        vectors: Vectors for the mean and the principal components.
        size: Number D of components to keep, largest variance first. Defaults to all.
        power: 1 divides each component by its standard deviation (full whitening); 0 only rotates (PCA).
            Values between 0 and 1 amplify components of small variance less, which are mostly noise.

    Example:
        >>> whiten = fit_whitening(torch.tensor([[0.0, 4.0], [0.0, -4.0], [1.0, 0.0], [-1.0, 0.0]]))
        >>> whiten(torch.tensor([[1.0, 4.0]])).abs()
        tensor([[0.7071, 0.7071]])
    """
    count, width = vectors.shape
    size = min(count - 1, width) if size is None else size
    if not 1 <= size <= min(count - 1, width):
        raise UsageError(
            f"whitening fitted to {count} vectors of size {width} cannot keep {size} components; "
            f"choose at most {max(0, min(count - 1, width))}"
        )
    if not 0 <= power <= 1:
        raise UsageError(f"the power of a whitening is {power}; it must lie between 0 and 1")
    exact = vectors.double()
    mean = exact.mean(0)
    centered = exact - mean
    variances, directions = torch.linalg.eigh(centered.T @ centered / count)  # in ascending order
    variances, directions = variances.flip(0)[:size], directions.flip(1)[:, :size]
    # A component without variance would be divided by zero; it carries no information and gets weight 0.
    alive = variances > variances[0] * 1e-12
    spread = torch.where(alive, variances, 1.0).pow(power / 2)
    # The sign of a component is arbitrary; fix it for the same result on every machine.
    peaks = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    projection = directions * peaks.sign() / spread * alive
    return Whitening(mean=mean.float(), projection=projection.float())
