"""PCA-whitening: rotate to the main directions and give each the same spread."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.errors import UsageError


@dataclass(frozen=True, eq=False)
class Whitening:
    """A fitted whitening: ``normalize((vectors - mean) @ projection)``.

    Attributes:
        mean: (F,).
        projection: F x D; its columns are the main directions, each divided by its own spread.
    """

    mean: Tensor
    projection: Tensor

    def __call__(self, vectors: Tensor) -> Tensor:
        """Unit vectors (N x D) of vectors (N x F)."""
        return F.normalize((vectors - self.mean) @ self.projection, dim=-1)


def fit_whitening(vectors: Tensor, *, size: int | None = None, power: float = 1.0) -> Whitening:
    """Fit a whitening to ``vectors`` (N x F), which must be development data and never the test set.

    Args:
        vectors: What the mean and the main directions are taken from.
        size: D, how many directions are kept, the widest first; all if None.
        power: 1 divides each direction by its standard deviation, so that all weigh the same; 0 only rotates
            (plain PCA). What lies between tames narrow directions, which are mostly noise.

    Example:
        >>> whiten = fit_whitening(torch.tensor([[0.0, 4.0], [0.0, -4.0], [1.0, 0.0], [-1.0, 0.0]]))
        >>> whiten(torch.tensor([[1.0, 4.0]])).abs()
        tensor([[0.7071, 0.7071]])
    """
    count, width = vectors.shape
    size = min(count - 1, width) if size is None else size
    if not 1 <= size <= min(count - 1, width):
        raise UsageError(
            f"whitening fitted to {count} vectors of width {width} cannot keep {size} directions; "
            f"choose at most {max(0, min(count - 1, width))}"
        )
    if not 0 <= power <= 1:
        raise UsageError(f"the power of a whitening is {power}; it must lie between 0 and 1")
    exact = vectors.double()
    mean = exact.mean(0)
    centred = exact - mean
    variances, directions = torch.linalg.eigh(centred.T @ centred / count)  # in rising order
    variances, directions = variances.flip(0)[:size], directions.flip(1)[:, :size]
    # A direction without any spread would be divided by zero; it says nothing and gets no weight.
    alive = variances > variances[0] * 1e-12
    spread = torch.where(alive, variances, 1.0).pow(power / 2)
    # A direction is as good as its opposite: fix the sign, so that every machine gives the same one.
    peaks = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    projection = directions * peaks.sign() / spread * alive
    return Whitening(mean=mean.float(), projection=projection.float())
