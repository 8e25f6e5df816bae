"""All pairs of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import bool_pair_masks
from levelfield.miners import Pairs, register
from levelfield.miners._prepare import prepare_embeddings


@register("all", finds="pairs")
class All:
    """All positive and negative pairs; a triplet loss combines them to all triplets.

    A loss without a miner uses the same pairs, but does not list them. Use this miner inside other miners.

    Example:
        >>> pairs = All()(torch.zeros(3, 2), torch.tensor([0, 0, 1]))
        >>> len(pairs.positive), len(pairs.negative)
        (2, 4)
    """

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Pairs:
        """Return all pairs of ``labels`` (B); the values of ``embeddings`` (B x D) are ignored."""
        prepare_embeddings(embeddings, labels)
        positive, negative = bool_pair_masks(labels)
        return Pairs(*positive.nonzero(as_tuple=True), *negative.nonzero(as_tuple=True))
