"""One run on several processes of torchrun: each rank embeds its shard of every batch.

The loss is computed on the embeddings of all ranks (``losses.global_batch.gather``), so a run on W ranks
minimizes the same loss as one process with the whole batch. BatchNorm layers that are not frozen use the
statistics of their own rank's shard.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist

from levelfield.data import Rows

Value = TypeVar("Value")


def world_size() -> int:
    """Return the number of processes of a run; 1 without torchrun."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the rank of this process; rank zero writes the records."""
    return dist.get_rank() if world_size() > 1 else 0


def shard(rows: Rows) -> Rows:
    """Return this rank's shard of a batch; shards are in the order of ranks."""
    return rows if world_size() == 1 else np.array_split(rows, world_size())[rank()]


def average_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Replace every gradient by its mean over the ranks."""
    if world_size() == 1:
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:  # all ranks must take part in every all-reduce
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size()


def broadcast_from_rank_zero(value: Value) -> Value:
    """Return the value of rank zero on every rank."""
    if world_size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]
