"""Pairs on the wrong side of a margin."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import bool_pair_masks, euclidean
from levelfield.core.space import Float
from levelfield.miners import Pairs, register
from levelfield.miners._prepare import prepare_embeddings


@register(
    "pair_margin",
    finds="pairs",
    space={"pos_margin": Float(0.0, 1.0), "neg_margin": Float(0.2, 2.0)},
)
class PairMargin:
    """Positive pairs farther apart than one margin, and negative pairs closer than another.

    Args:
        pos_margin: Smallest Euclidean distance of a positive pair.
        neg_margin: Largest Euclidean distance of a negative pair.
        normalize: Scale the embeddings to unit length first, like the losses.

    Example:
        >>> line = torch.tensor([[0.0], [0.5], [1.0]])
        >>> pairs = PairMargin(normalize=False)(line, torch.tensor([0, 0, 1]))
        >>> pairs.positive.tolist(), pairs.neg_anchor.tolist(), pairs.negative.tolist()
        ([1, 0], [1, 2], [2, 1])
    """

    def __init__(self, *, pos_margin: float = 0.2, neg_margin: float = 0.8, normalize: bool = True) -> None:
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Pairs:
        """Return the pairs of ``embeddings`` (B x D) with ``labels`` (B)."""
        positive, negative = bool_pair_masks(labels)
        distance = euclidean(prepare_embeddings(embeddings, labels, normalize=self.normalize))
        return Pairs(
            *(positive & (distance > self.pos_margin)).nonzero(as_tuple=True),
            *(negative & (distance < self.neg_margin)).nonzero(as_tuple=True),
        )
