"""One run on several processes, started by torchrun: each rank embeds its share of every batch.

The loss is computed on the embeddings of all ranks (``losses.global_batch.gather``), so a run on W ranks
minimises what one process with the whole batch does. BatchNorm layers that are not frozen see the statistics
of their own rank's share.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

from levelfield.data import Rows

Value = TypeVar("Value")


def world_size() -> int:
    """How many processes work on a run; 1 outside of torchrun."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is; 0 writes the records."""
    return dist.get_rank() if world_size() > 1 else 0


def share(rows: Rows) -> Rows:
    """This rank's part of a batch; parts follow each other in the order of ranks."""
    return rows if world_size() == 1 else np.array_split(rows, world_size())[rank()]


def average_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Replace every gradient by its mean over the ranks."""
    if world_size() == 1:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:  # all ranks must take part in every exchange
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size()


def from_chief(value: Value) -> Value:
    """What rank 0 passes in, on every rank."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]
