"""Preparation of the embeddings for a miner."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import check_embeddings, l2_normalize


def prepare_embeddings(embeddings: Tensor, labels: Tensor, *, normalize: bool = True) -> Tensor:
    """Return the embeddings (B x D) detached, in float32 or float64, of unit length if ``normalize``.

    Half-precision embeddings are converted before distances are compared.

    Example:
        >>> import torch
        >>> prepare_embeddings(torch.tensor([[3.0, 4.0]]), torch.tensor([0])).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """
    points = check_embeddings(embeddings.detach(), labels)
    if len(labels) == 0:
        raise UsageError(
            f"a miner needs at least one sample, got shape {tuple(embeddings.shape)}; skip empty batches"
        )
    return l2_normalize(points) if normalize else points
