"""Batch-hard mining."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import euclidean, relations
from levelfield.miners import Triplets, register
from levelfield.miners._points import checked_points


@register("hard", paper="In Defense of the Triplet Loss for Person Re-Identification", year=2017)
class Hard:
    """For each anchor its farthest positive and its nearest negative, by Euclidean distance.

    An anchor without a positive or without a negative gives no triplet.

    Args:
        normalize: Scale the embeddings to unit length first, as the losses do.

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
        """At most B triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = checked_points(embeddings, labels, normalize=self.normalize)
        positive, negative = relations(labels)
        anchor = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
        distance = euclidean(points, squared=True)[anchor]
        return Triplets(
            anchor,
            distance.masked_fill(~positive[anchor], -torch.inf).argmax(dim=1),
            distance.masked_fill(~negative[anchor], torch.inf).argmin(dim=1),
        )
