"""The baselines of the papers' tables: pretrained or random trunks whose features PCA makes smaller."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.models._heads import Head


def pca_head(features: Tensor, *, size: int, normalize: bool = True) -> Head:
    """A linear head that projects on the ``size`` main directions of ``features``; nothing in it learns.

    Args:
        features: What the directions are fitted to, N x F. The papers' tools fit them to the very features
            that are then evaluated; fitting them to training features is the honest way.
        size: D, the width of the embeddings.
        normalize: Whether embeddings have unit length.

    Example:
        >>> head = pca_head(torch.tensor([[0.0, 1.0], [0.0, 3.0], [0.0, 5.0]]), size=1, normalize=False)
        >>> head(torch.tensor([[7.0, 4.0]]))
        tensor([[1.]])
    """
    count, width = features.shape
    if not 1 <= size <= min(count, width):
        raise UsageError(
            f"PCA of {count} features of width {width} cannot give size {size}; "
            f"choose at most {min(count, width)}"
        )
    exact = features.double()
    mean = exact.mean(0)
    centred = exact - mean
    _, vectors = torch.linalg.eigh(centred.T @ centred)  # eigenvalues come in rising order
    components = vectors.flip(1)[:, :size].T
    # A direction is as good as its opposite: fix the sign, so that every machine gives the same one.
    peaks = components.gather(1, components.abs().argmax(1, keepdim=True))
    components = components * peaks.sign()
    projection = nn.Linear(width, size, device="meta").to_empty(device=features.device)  # draws no numbers
    with torch.no_grad():
        projection.weight.copy_(components)
        projection.bias.copy_(-components @ mean)
    return Head(projection.requires_grad_(False), size=size, normalize=normalize)
