"""Batches for the checks of losses and miners."""

from __future__ import annotations

import torch
from torch import Tensor

CLASSES, SIZE = 4, 8
LABELS = {
    "a balanced batch": [0, 0, 1, 1, 2, 2, 3, 3],
    "an unbalanced batch": [0, 0, 0, 0, 0, 1, 1, 2],
    "a batch of one class": [1, 1, 1, 1],
    "a batch without positives": [0, 1, 2, 3],
    "a batch of one": [2],
}


def make_batch(title: str, *, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return random unit embeddings (B x SIZE) that require a gradient, and the labels (B) of ``title``.

    Example:
        >>> embeddings, labels = make_batch("a batch of one")
        >>> embeddings.shape, labels
        (torch.Size([1, 8]), tensor([2]))
    """
    labels = LABELS[title]
    generator = torch.Generator().manual_seed(len(labels))
    x = torch.randn(len(labels), SIZE, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(x).to(dtype).requires_grad_(), torch.tensor(labels)
