"""The baselines of the papers' tables: pretrained or random trunks whose features PCA makes smaller."""

from __future__ import annotations

from torch import Tensor

from levelfield.errors import UsageError
from levelfield.models._head_init import principal_directions, start_head
from levelfield.models._heads import Head, create_head


def pca_head(features: Tensor, *, size: int, normalize: bool = True) -> Head:
    """A linear head that projects on the ``size`` main directions of ``features``; nothing in it learns.

    Args:
        features: What the directions are fitted to, N x F. The papers' tools fit them to the very features
            that are then evaluated; fitting them to training features is the honest way.
        size: D, the width of the embeddings.
        normalize: Whether embeddings have unit length.

    Example:
        >>> import torch
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
    head = create_head("linear", num_features=width, size=size, normalize=normalize).to(features.device)
    start_head(head, principal_directions(features), init="pca")
    head.requires_grad_(False)
    return head
