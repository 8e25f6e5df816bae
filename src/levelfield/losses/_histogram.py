"""Differentiable histograms: each value is split between the two nearest nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.core.geometry import first_derivative_only


def soft_histogram(positions: Tensor, groups: Tensor, *, num_groups: int, num_nodes: int) -> Tensor:
    """Return the histograms of all groups, ``num_groups`` x ``num_nodes``.

    Args:
        positions: Position of each value, in units of the node distance: node k is at k. Any shape.
        groups: Histogram of each value, 0..num_groups-1; same shape, int32.
        num_groups: Number of histograms.
        num_nodes: Number of nodes; values beyond the outer nodes count at them.

    Example:
        >>> one = torch.zeros(2, dtype=torch.int32)
        >>> soft_histogram(torch.tensor([0.0, 1.25]), one, num_groups=1, num_nodes=3)
        tensor([[1.0000, 0.7500, 0.2500]])
    """
    result: Tensor = _SoftHistogram.apply(positions, groups, num_groups, num_nodes)
    return result


class _SoftHistogram(torch.autograd.Function):
    """Soft histogram with one scatter, because the two shares of a value sum to one."""

    @staticmethod
    def forward(ctx: Any, positions: Tensor, groups: Tensor, num_groups: int, num_nodes: int) -> Tensor:
        inside = positions.clamp(0, num_nodes - 1)
        outside = (inside != positions).flatten()
        node = inside.floor().clamp_(max=num_nodes - 2)
        right = inside.sub_(node).flatten()
        # NaN is counted at the first node, so that it reaches the result as a share instead of an index.
        cell = torch.add(node.nan_to_num_(0.0).int(), groups, alpha=num_nodes).flatten().long()
        size = num_groups * num_nodes
        number = torch.bincount(cell, minlength=size).to(right.dtype)
        passed_on = torch.zeros_like(number).scatter_add_(0, cell, right)
        # Values beyond the outer nodes have slope zero.
        ctx.save_for_backward(cell.masked_fill_(outside, size))
        ctx.shape = positions.shape
        return (number - passed_on + passed_on.roll(1)).view(num_groups, num_nodes)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (cell,) = ctx.saved_tensors
        flat = gradient.flatten()
        slope = torch.nn.functional.pad(flat.roll(-1) - flat, (0, 1))
        return slope.gather(0, cell).view(ctx.shape), None, None, None
