"""Pooling: feature maps (B x F x h x w) to vectors (B x F)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError, did_you_mean


class Average(nn.Module):
    """Mean over all positions.

    Example:
        >>> Average()(torch.tensor([[[[1.0, 3.0]]]]))
        tensor([[2.]])
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled vectors (B x F) of maps (B x F x h x w)."""
        return maps.mean((2, 3))


class Maximum(nn.Module):
    """Maximum over all positions.

    Example:
        >>> Maximum()(torch.tensor([[[[1.0, 3.0]]]]))
        tensor([[3.]])
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled vectors (B x F) of maps (B x F x h x w)."""
        return maps.amax((2, 3))


class AverageAndMaximum(nn.Module):
    """Sum of mean and maximum: an undocumented trick in the code of one paper.

    Example:
        >>> AverageAndMaximum()(torch.tensor([[[[1.0, 3.0]]]]))
        tensor([[5.]])
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled vectors (B x F) of maps (B x F x h x w)."""
        return maps.mean((2, 3)) + maps.amax((2, 3))


class GeneralizedMean(nn.Module):
    """GeM: generalized mean with a learned power; 1 is the average, infinity the maximum.

    Example:
        >>> pool = GeneralizedMean(power=1.0)
        >>> pool(torch.tensor([[[[1.0, 3.0]]]])).item()
        2.0
    """

    def __init__(self, *, power: float = 3.0, floor: float = 1e-6) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.tensor(power))
        self.floor = floor

    def forward(self, maps: Tensor) -> Tensor:
        """Return the pooled vectors (B x F) of maps (B x F x h x w); values are clamped at ``floor``."""
        return maps.clamp(min=self.floor).pow(self.power).mean((2, 3)).pow(1 / self.power)


POOLINGS: dict[str, type[nn.Module]] = {
    "avg": Average,
    "max": Maximum,
    "avg+max": AverageAndMaximum,
    "gem": GeneralizedMean,
}


def create_pooling(name: str) -> nn.Module:
    """Return the pooling called ``name``: avg, max, avg+max or gem.

    Example:
        >>> create_pooling("mean")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: unknown pooling "mean"; choose from avg, avg+max, gem, max
    """
    if name.lower() not in POOLINGS:
        raise UsageError(f'unknown pooling "{name}"{did_you_mean(name, POOLINGS)}')
    return POOLINGS[name.lower()]()
