"""Every pair of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import relations
from levelfield.miners import Pairs, register
from levelfield.miners._points import checked_points


@register("all", finds="pairs")
class All:
    """Every positive and every negative pair; a triplet loss makes every triplet of them.

    A loss without a miner does the same, and without listing the pairs; this miner is for combining.

    Example:
        >>> pairs = All()(torch.zeros(3, 2), torch.tensor([0, 0, 1]))
        >>> len(pairs.positive), len(pairs.negative)
        (2, 4)
    """

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Pairs:
        """All pairs of ``labels`` (B); ``embeddings`` (B x D) do not matter."""
        checked_points(embeddings, labels)
        positive, negative = relations(labels)
        return Pairs(*positive.nonzero(as_tuple=True), *negative.nonzero(as_tuple=True))
