"""Selecting and ordering, on the CPU by NumPy (several times faster there than torch), elsewhere by torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

MOST = 1 << 21  # candidates that one key has room for
ROWS = 1 << 10  # rows that it has room for


def nth_largest(values: Tensor, nth: Tensor) -> Tensor:
    """For each row of ``values`` (B, M) its nth largest value (B,), with ``nth`` (B,) from 1.

    Example:
        >>> nth_largest(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([2]))
        tensor([2.])
    """
    deepest = int(nth.max())
    if values.device.type != "cpu":
        return values.topk(deepest, dim=1).values.gather(1, nth[:, None] - 1)[:, 0]
    top = np.partition(values.numpy(), values.shape[1] - deepest, axis=1)[:, values.shape[1] - deepest :]
    top.sort(axis=1)
    return torch.from_numpy(top).gather(1, deepest - nth[:, None])[:, 0]


def where(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The rows and columns at which ``mask`` (B, M) is true, in reading order."""
    if mask.device.type != "cpu":
        row, column = mask.nonzero(as_tuple=True)
        return row, column
    flat = torch.from_numpy(np.flatnonzero(mask.numpy()))
    row = flat // mask.shape[1]
    return row, flat - row * mask.shape[1]


def by_row_then_value(row: Tensor, value: Tensor) -> Tensor:
    """The order (P,) by row (P,), then largest value (P,) first; at most ``MOST`` pairs of ``ROWS`` rows.

    One whole number per pair holds the row, the value's bits in an order that sorts as the value does, and
    the pair's place: sorting these numbers is sorting the pairs.

    Example:
        >>> by_row_then_value(torch.tensor([1, 0, 0]), torch.tensor([5.0, -1.0, 2.0]))
        tensor([2, 1, 0])
    """
    bits = value.float().view(torch.int32)
    rising = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    place = torch.arange(len(row), device=row.device)
    key = (row << 53) | ((0x7FFFFFFF - rising) << 21) | place
    return _sorted(key) & (MOST - 1)


def _sorted(key: Tensor) -> Tensor:
    if key.device.type != "cpu":
        return key.sort().values
    key.numpy().sort()
    return key
