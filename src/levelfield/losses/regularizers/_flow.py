"""Conditional normalizing flow: an invertible map with a condition and a known determinant."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from levelfield.losses._layers import mlp


class Coupling(nn.Module):
    """Permutation of the components, then an affine map of each half that depends on the other half.

    The scale is ``exp(clamp * 2/pi * atan(s))``, between exp(-clamp) and exp(clamp). This is the affine
    coupling of Glow (2018) with a soft limit.

    Args:
        size: D.
        depth: Layers of the two networks that compute scales and shifts.
        width: Width of their hidden layers.
        clamp: Limit of the logarithm of the scales.
        generator: Generator of the permutation and the initial weights.
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
        """Return the mapped points (B x D) under a condition (B x D), and the log determinants (B)."""
        points = points[:, self.order]
        first, rest = points[:, : self._first], points[:, self._first :]
        first, log_first = self._affine(first, self.of_rest(torch.cat([rest, condition], dim=1)))
        rest, log_rest = self._affine(rest, self.of_first(torch.cat([first, condition], dim=1)))
        return torch.cat([first, rest], dim=1), log_first + log_rest

    def _affine(self, half: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift = parameters.chunk(2, dim=1)
        log_scale = self._clamp * (2 / math.pi) * scale.atan()
        return half * log_scale.exp() + shift, log_scale.sum(dim=1)


class Flow(nn.Module):
    """Sequence of couplings.

    Example:
        >>> flow = Flow(4, blocks=2, depth=2, width=8, clamp=2.0, generator=torch.Generator())
        >>> points, log_determinants = flow(torch.zeros(3, 4), torch.zeros(3, 4))
        >>> points.shape, log_determinants.shape
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
        """Return the mapped points (B x D) under a condition (B x D), and the log determinants (B)."""
        log_determinants = points.new_zeros(len(points))
        for block in self.blocks:
            points, log_block = block(points, condition)
            log_determinants = log_determinants + log_block
        return points, log_determinants
