"""Pair mining of the multi-similarity loss."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import bool_pair_masks, dot_products
from levelfield.core.space import Float
from levelfield.miners import Pairs, register
from levelfield.miners._prepare import prepare_embeddings


@register(
    "multi_similarity",
    finds="pairs",
    paper="Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning",
    year=2019,
    space={"epsilon": Float(0.01, 1.0, log=True)},
)
class MultiSimilarity:
    """Negatives more similar than the least similar positive, and vice versa, with a tolerance epsilon.

    A negative pair is kept if its cosine is above the anchor's lowest positive cosine minus ``epsilon``. A
    positive pair is kept if its cosine is below the anchor's highest negative cosine plus ``epsilon``.

    Args:
        epsilon: Tolerance of both comparisons.

    Example:
        >>> circle = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [-1.0, 0.0]])
        >>> pairs = MultiSimilarity()(circle, torch.tensor([0, 0, 1, 2]))
        >>> pairs.neg_anchor.tolist(), pairs.negative.tolist(), pairs.pos_anchor.tolist()
        ([1], [2], [1])
    """

    def __init__(self, *, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Pairs:
        """Return the pairs of ``embeddings`` (B x D, L2-normalized by the miner) with ``labels`` (B)."""
        positive, negative = bool_pair_masks(labels)
        cosine = dot_products(prepare_embeddings(embeddings, labels))
        lowest = cosine.masked_fill(~positive, torch.inf).amin(dim=1, keepdim=True)
        highest = cosine.masked_fill(~negative, -torch.inf).amax(dim=1, keepdim=True)
        return Pairs(
            *(positive & (cosine - self.epsilon < highest)).nonzero(as_tuple=True),
            *(negative & (cosine + self.epsilon > lowest)).nonzero(as_tuple=True),
        )
