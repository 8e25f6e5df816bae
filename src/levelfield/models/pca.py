"""PCA heads for the baselines of the papers: pretrained or random trunks with reduced features."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.models._head_init import init_head, principal_directions
from levelfield.models._heads import Head, create_head


def pca_head(features: Tensor, *, size: int, normalize: bool = True) -> Head:
    """Return a frozen linear head that projects on the first ``size`` principal directions of ``features``.

    Args:
        features: Features to fit the PCA to, N x F. Use training features. The tools of the papers fit it to
            the evaluated features, which is leaky.
        size: Embedding size D.
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
    init_head(head, principal_directions(features), init="pca")
    head.requires_grad_(False)
    return head
