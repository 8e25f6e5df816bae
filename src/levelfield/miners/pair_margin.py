"""Pairs on the wrong side of a margin."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import euclidean, relations
from levelfield.miners import Pairs, register
from levelfield.miners._points import checked_points
from levelfield.space import Float


@register(
    "pair_margin",
    finds="pairs",
    space={"pos_margin": Float(0.0, 1.0), "neg_margin": Float(0.2, 2.0)},
)
class PairMargin:
    """Positive pairs farther apart than one margin, negative pairs nearer than the other.

    Args:
        pos_margin: Positive pairs must be farther apart than this, by Euclidean distance.
        neg_margin: Negative pairs must be nearer than this.
        normalize: Scale the embeddings to unit length first, as the losses do.

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
        """Pairs of ``embeddings`` (B x D) with ``labels`` (B)."""
        positive, negative = relations(labels)
        distance = euclidean(checked_points(embeddings, labels, normalize=self.normalize))
        return Pairs(
            *(positive & (distance > self.pos_margin)).nonzero(as_tuple=True),
            *(negative & (distance < self.neg_margin)).nonzero(as_tuple=True),
        )
