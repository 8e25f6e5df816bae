"""All triplets of one difficulty."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import bool_pair_masks, euclidean, list_positives
from levelfield.core.space import Choice, Float
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings
from levelfield.miners._ranking import rank_negatives

KINDS = ("all", "hard", "semihard", "easy")


@register(
    "triplet_margin",
    paper="FaceNet: A Unified Embedding for Face Recognition and Clustering",
    year=2015,
    space={"margin": Float(0.01, 1.0), "kind": Choice(*KINDS)},
)
class TripletMargin:
    """All triplets of one difficulty, by g = d(a, n) - d(a, p) with Euclidean distances.

    Args:
        margin: Margin of the triplet loss.
        kind: "all" that violate the margin (g <= margin), the "hard" ones among them (g <= 0), the
            "semihard" ones among them (0 < g <= margin), or the "easy" ones that do not (g > margin).
        normalize: Scale the embeddings to unit length first, like the losses.

    It needs O(B^2) memory, plus the memory of the triplets found.

    Example:
        >>> line = torch.tensor([[0.0], [1.0], [0.5], [1.1], [3.0]])
        >>> triplets = TripletMargin(kind="semihard", normalize=False)(line, torch.tensor([0, 0, 1, 2, 3]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0], [1], [3])
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        kind: Literal["all", "hard", "semihard", "easy"] = "all",
        normalize: bool = True,
    ) -> None:
        if kind not in KINDS:
            raise UsageError(f"triplet_margin: kind must be one of {', '.join(KINDS)}, got {kind!r}")
        self.margin = margin
        self.kind = kind
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return the triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        distance = euclidean(prepare_embeddings(embeddings, labels, normalize=self.normalize))
        positive, negative = bool_pair_masks(labels)
        pairs = list_positives(positive)
        ranked = rank_negatives(distance, negative)
        reach = distance[pairs.anchor, pairs.positive]
        # Each kind is a range of the ranked negatives, bounded by 0, equal, at_margin and farthest.
        nearest = torch.zeros_like(pairs.anchor)
        equal = ranked.count_nearer(pairs, reach, past_equal=True)
        at_margin = ranked.count_nearer(pairs, reach + self.margin, past_equal=True)
        farthest = negative.sum(dim=1)[pairs.anchor]
        first, last = {
            "all": (nearest, at_margin),
            "hard": (nearest, torch.minimum(equal, at_margin)),
            "semihard": (equal, at_margin),
            "easy": (at_margin, farthest),
        }[self.kind]
        counts = (last - first).clamp_(min=0)
        pair = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        within = torch.arange(len(pair), device=counts.device) - (counts.cumsum(0) - counts)[pair]
        anchor = pairs.anchor[pair]
        return Triplets(anchor, pairs.positive[pair], ranked.order[anchor, first[pair] + within])
