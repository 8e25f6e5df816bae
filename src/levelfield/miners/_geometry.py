"""What every miner looks at: who shares a class with whom, and how far apart all pairs are."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.errors import UsageError


def relations(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which pairs are positive (same class, not the sample itself) and negative: two bool B x B.

    Example:
        >>> positive, negative = relations(torch.tensor([0, 0, 1]))
        >>> positive.nonzero().tolist(), negative.nonzero().tolist()
        ([[0, 1], [1, 0]], [[0, 2], [1, 2], [2, 0], [2, 1]])
    """
    same = labels[:, None] == labels[None, :]
    return same.clone().fill_diagonal_(False), ~same


def squared_distances(embeddings: Tensor, *, normalize: bool) -> Tensor:
    """Squared Euclidean distances between all embeddings (B x D), B x B, with exact zeros on the diagonal.

    Half precision is raised to float32 and autocast is off: rounding must not decide what is hard.

    Example:
        >>> squared_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), normalize=False).tolist()
        [[0.0, 25.0], [25.0, 0.0]]
    """
    with torch.autocast(embeddings.device.type, enabled=False):
        points = unit(embeddings) if normalize else _precise(embeddings)
        norms = (points * points).sum(dim=1)
        products = points @ points.T
        return (norms[:, None] + norms[None, :]).sub_(products, alpha=2).clamp_(min=0).fill_diagonal_(0)


def distances(embeddings: Tensor, *, normalize: bool) -> Tensor:
    """Euclidean distances between all embeddings (B x D), B x B."""
    return squared_distances(embeddings, normalize=normalize).sqrt_()


def cosines(embeddings: Tensor) -> Tensor:
    """Cosine similarities of all embeddings (B x D), B x B."""
    with torch.autocast(embeddings.device.type, enabled=False):
        points = unit(embeddings)
        return points @ points.T


def unit(embeddings: Tensor) -> Tensor:
    """The embeddings (B x D) projected onto the unit sphere, at least in float32."""
    return F.normalize(_precise(embeddings))


def check_batch(embeddings: Tensor, labels: Tensor) -> None:
    """Refuse what is not B x D with B labels, B > 0."""
    if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or len(labels) == 0:
        raise UsageError(
            "a miner takes embeddings of shape B x D and labels of shape B, B > 0, got "
            f"{tuple(embeddings.shape)} and {tuple(labels.shape)}"
        )


def _precise(embeddings: Tensor) -> Tensor:
    return embeddings.detach().to(torch.promote_types(embeddings.dtype, torch.float32))
