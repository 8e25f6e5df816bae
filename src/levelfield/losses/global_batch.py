"""One loss over the batches of all ranks: embeddings are gathered, and gradients find their way back."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from levelfield.geometry import first_derivative_only


def gather(
    embeddings: Tensor, labels: Tensor, *, averaged: bool = True, group: dist.ProcessGroup | None = None
) -> tuple[Tensor, Tensor]:
    """The embeddings and labels of all ranks, in the order of ranks: N x D and N.

    If every rank then computes the same loss of them, a pair loss sees the pairs between ranks, which a loss
    on each rank's own batch misses. A rank keeps the gradient of its own samples; nothing more is sent in the
    backward pass. A miner that draws at random must be seeded the same on every rank. Outside of
    torch.distributed, or on a single rank, the inputs come back as they are.

    Args:
        embeddings: This rank's, B x D; the gathered ones pass their gradient back to them. B may differ by
            rank.
        labels: This rank's, B.
        averaged: Whether gradients of the network will be averaged over the W ranks, as
            DistributedDataParallel does. Each rank holds only the part of the gradient that came through its
            own samples; multiplied by W, the average is the gradient of one process with the whole batch.
            Without, the parts add up to it. A loss's own parameters get the full gradient on every rank
            either way.
        group: The process group; None is all ranks.

    Example:
        >>> gather(torch.eye(2), torch.tensor([0, 1]))[1]
        tensor([0, 1])
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size(group) == 1:
        return embeddings, labels
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    sizes = [torch.zeros(1, dtype=torch.int64, device=labels.device) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(labels)], device=labels.device), group=group)
    counts = [int(size) for size in sizes]
    targets = torch.cat(_gathered(labels, counts, group))
    everyone = torch.cat(_gathered(embeddings.detach(), counts, group))
    vectors: Tensor = _Connected.apply(embeddings, everyone, sum(counts[:rank]), world if averaged else 1)
    return vectors, targets


class _Connected(torch.autograd.Function):
    """All ranks' embeddings, of which those from ``start`` on are this rank's own and get the gradient."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, everyone: Tensor, start: int, factor: int) -> Tensor:
        ctx.rows = slice(start, start + len(own))
        ctx.factor = factor
        return everyone

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        # Every rank holds the same gradient of the same loss, so there is nothing to sum up.
        return gradient[ctx.rows] * ctx.factor, None, None, None


def _gathered(tensor: Tensor, counts: list[int], group: dist.ProcessGroup | None) -> list[Tensor]:
    """The rows of all ranks; they travel padded to the longest, as collectives want equal shapes."""
    longest = max(counts)
    filling = (0, 0) * (tensor.ndim - 1) + (0, longest - len(tensor))
    padded = pad(tensor, filling).contiguous()
    received = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(received, padded, group=group)
    return [part[:count] for part, count in zip(received, counts, strict=True)]
