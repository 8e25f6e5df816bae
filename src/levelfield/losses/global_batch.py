"""One loss over the batches of all ranks: gather embeddings and pass gradients back."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import pad

from levelfield.core.geometry import first_derivative_only


def gather(
    embeddings: Tensor, labels: Tensor, *, averaged: bool = True, group: dist.ProcessGroup | None = None
) -> tuple[Tensor, Tensor]:
    """Return the embeddings and labels of all ranks, in the order of ranks: N x D and N.

    Every rank then computes the same loss of all embeddings. So a pair loss also uses pairs between ranks,
    which a loss of each rank's own batch misses. A rank keeps the gradient of its own samples; the backward
    pass sends nothing. A random miner must have the same seed on every rank. Without torch.distributed, or on
    a single rank, the inputs are returned unchanged.

    Args:
        embeddings: Embeddings of this rank, B x D; they receive the gradient. B may differ by rank.
        labels: Labels of this rank, B.
        averaged: Whether gradients of the network are averaged over the W ranks, as in
            DistributedDataParallel. Each rank holds only the part of the gradient of its own samples.
            Multiplied by W, the average is the gradient of one process with the whole batch. If false, the
            parts sum to it. The loss's own parameters get the full gradient on every rank in both cases.
        group: Process group; None means all ranks.

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
    targets = torch.cat(_all_gather_rows(labels, counts, group))
    everyone = torch.cat(_all_gather_rows(embeddings.detach(), counts, group))
    vectors: Tensor = _GatherWithGradient.apply(
        embeddings, everyone, sum(counts[:rank]), world if averaged else 1
    )
    return vectors, targets


class _GatherWithGradient(torch.autograd.Function):
    """Embeddings of all ranks; the rows of this rank, from ``start`` on, receive the gradient."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, everyone: Tensor, start: int, factor: int) -> Tensor:
        ctx.rows = slice(start, start + len(own))
        ctx.factor = factor
        return everyone

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        # Every rank has the same gradient of the same loss, so nothing is summed.
        return gradient[ctx.rows] * ctx.factor, None, None, None


def _all_gather_rows(tensor: Tensor, counts: list[int], group: dist.ProcessGroup | None) -> list[Tensor]:
    """Return the rows of all ranks; they are sent padded, because collectives need equal shapes."""
    longest = max(counts)
    filling = (0, 0) * (tensor.ndim - 1) + (0, longest - len(tensor))
    padded = pad(tensor, filling).contiguous()
    received = [torch.empty_like(padded) for _ in counts]
    dist.all_gather(received, padded, group=group)
    return [part[:count] for part, count in zip(received, counts, strict=True)]
