"""A conditional normalising flow: an invertible map that depends on a condition, its determinant known."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from levelfield.losses._layers import mlp


class Coupling(nn.Module):
    """A permutation of the components, then both halves scaled and shifted by what the other half says.

    The scale is ``exp(clamp * 2/pi * atan(s))``, so between exp(-clamp) and exp(clamp); that is the affine
    coupling of Glow (2018) with a soft limit.

    Args:
        size: D.
        depth: Layers of the two networks that give scales and shifts.
        width: Of their hidden layers.
        clamp: Limits the logarithm of the scales.
        generator: Of the permutation and of the starting weights.
    """

    def __init__(
        self, size: int, *, depth: int, width: int, clamp: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self._first = size // 2
        rest = size - self._first
        self._clamp = clamp
        self.order: Tensor
        self.register_buffer("order", torch.randperm(size, generator=generator))
        hidden = [width] * (depth - 1)
        self.of_rest = mlp([rest + size, *hidden, 2 * self._first], generator=generator)
        self.of_first = mlp([self._first + size, *hidden, 2 * rest], generator=generator)

    def forward(self, points: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The image (B x D) of points (B x D) under a condition (B x D), and the log determinants (B)."""
        points = points[:, self.order]
        first, rest = points[:, : self._first], points[:, self._first :]
        first, grown = self._affine(first, self.of_rest(torch.cat([rest, condition], dim=1)))
        rest, grown_too = self._affine(rest, self.of_first(torch.cat([first, condition], dim=1)))
        return torch.cat([first, rest], dim=1), grown + grown_too

    def _affine(self, half: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = parameters.chunk(2, dim=1)
        log_scale = self._clamp * (2 / math.pi) * scale.atan()
        return half * log_scale.exp() + shift, log_scale.sum(dim=1)


class Flow(nn.Module):
    """Couplings one after the other.

    Example:
        >>> flow = Flow(4, blocks=2, depth=2, width=8, clamp=2.0, generator=torch.Generator())
        >>> image, log_determinants = flow(torch.zeros(3, 4), torch.zeros(3, 4))
        >>> image.shape, log_determinants.shape
        (torch.Size([3, 4]), torch.Size([3]))
    """

    def __init__(
        self, size: int, *, blocks: int, depth: int, width: int, clamp: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            Coupling(size, depth=depth, width=width, clamp=clamp, generator=generator) for _ in range(blocks)
        )

    def forward(self, points: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        """The image (B x D) of points (B x D) under a condition (B x D), and the log determinants (B)."""
        grown = points.new_zeros(len(points))
        for block in self.blocks:
            points, here = block(points, condition)
            grown = grown + here
        return points, grown
