"""Selection and sorting of large blocks: by NumPy on the CPU, several times faster there than torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

MAX_CANDIDATES = 1 << 21  # the sort key of `by_row_then_similarity` has 21 bits for them
MAX_ROWS = 1 << 10


def nth_largest(values: Tensor, nth: Tensor) -> Tensor:
    """Return the nth largest value (B,) of each row of ``values`` (B, M), with ``nth`` (B,) from 1.

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


def count_true(mask: Tensor) -> int:
    """Return the number of true values of ``mask``."""
    return int(np.count_nonzero(mask.numpy()) if mask.device.type == "cpu" else mask.sum())


def rows_and_columns(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows and columns at which ``mask`` (B, M) is true, in reading order."""
    if mask.device.type != "cpu":
        row, column = mask.nonzero(as_tuple=True)
        return row, column
    flat = torch.from_numpy(np.flatnonzero(mask.numpy()))
    row = flat // mask.shape[1]
    return row, flat - row * mask.shape[1]


def by_row_then_similarity(row: Tensor, similarity: Tensor) -> Tensor:
    """Return the order (P,) by row (P,), then largest similarity (P,) first.

    The sort key of a pair is one integer: the row, the similarity's bits in sortable order, and the pair's
    number. It has room for ``MAX_CANDIDATES`` pairs of ``MAX_ROWS`` rows.

    Example:
        >>> by_row_then_similarity(torch.tensor([1, 0, 0]), torch.tensor([5.0, -1.0, 2.0]))
        tensor([2, 1, 0])
    """
    bits = similarity.float().view(torch.int32)
    rising = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    number = torch.arange(len(row), device=row.device)
    key = (row << 53) | ((0x7FFFFFFF - rising) << 21) | number
    if key.device.type == "cpu":
        key.numpy().sort()
    else:
        key = key.sort().values
    return key & ((1 << 21) - 1)
