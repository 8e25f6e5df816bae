"""Histograms with a gradient: each value is shared between the two nodes around it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from levelfield.geometry import first_derivative_only


def soft_histogram(positions: Tensor, groups: Tensor, *, num_groups: int, num_nodes: int) -> Tensor:
    """How much of each group lies at each node; ``num_groups`` x ``num_nodes``.

    Args:
        positions: Where each value lies, in units of the distance of nodes: node k is at k. Any shape.
        groups: The histogram each value belongs to, 0..num_groups-1; the same shape, int32.
        num_groups: The number of histograms.
        num_nodes: The number of nodes; values beyond the outer nodes are counted at them.

    Example:
        >>> one = torch.zeros(2, dtype=torch.int32)
        >>> soft_histogram(torch.tensor([0.0, 1.25]), one, num_groups=1, num_nodes=3)
        tensor([[1.0000, 0.7500, 0.2500]])
    """
    result: Tensor = _SoftHistogram.apply(positions, groups, num_groups, num_nodes)
    return result


class _SoftHistogram(torch.autograd.Function):
    """Needs one scattered sum, because the two shares of a value add up to one."""

    @staticmethod
    def forward(ctx: Any, positions: Tensor, groups: Tensor, num_groups: int, num_nodes: int) -> Tensor:
        inside = positions.clamp(0, num_nodes - 1)
        outside = (inside != positions).flatten()
        node = inside.floor().clamp_(max=num_nodes - 2)
        right = inside.sub_(node).flatten()
        cell = torch.add(node.int(), groups, alpha=num_nodes).flatten().long()
        size = num_groups * num_nodes
        number = torch.bincount(cell, minlength=size).to(right.dtype)
        passed_on = torch.zeros_like(number).scatter_add_(0, cell, right)
        # Beyond the outer nodes nothing changes with the position: such values look at a slope of zero.
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
