"""Batch-hard mining."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import bool_pair_masks, euclidean
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings


@register("hard", paper="In Defense of the Triplet Loss for Person Re-Identification", year=2017)
class Hard:
    """For each anchor, its farthest positive and its nearest negative, by Euclidean distance.

    Anchors without a positive or without a negative are skipped.

    Args:
        normalize: Scale the embeddings to unit length first, like the losses.

    Example:
        >>> line = torch.tensor([[0.0], [1.0], [2.5], [4.0], [5.0]])
        >>> triplets = Hard(normalize=False)(line, torch.tensor([0, 0, 0, 1, 1]))
        >>> triplets.positive.tolist(), triplets.negative.tolist()
        ([2, 2, 0, 4, 3], [3, 3, 3, 2, 2])
    """

    def __init__(self, *, normalize: bool = True) -> None:
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return at most B triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = prepare_embeddings(embeddings, labels, normalize=self.normalize)
        positive, negative = bool_pair_masks(labels)
        anchor = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
        distance = euclidean(points, squared=True)[anchor]
        return Triplets(
            anchor,
            distance.masked_fill(~positive[anchor], -torch.inf).argmax(dim=1),
            distance.masked_fill(~negative[anchor], torch.inf).argmin(dim=1),
        )
