"""Triplets that violate the angular constraint."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import bool_pair_masks, euclidean, iterate_chunks
from levelfield.core.space import Float
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings


@register(
    "angular", paper="Deep Metric Learning with Angular Loss", year=2017, space={"angle": Float(1.0, 60.0)}
)
class Angular:
    """All triplets whose angle at the negative is above a bound.

    The angle is that of the angular loss: atan(|a - p| / (2 |n - c|)), with the midpoint c of anchor and
    positive.

    Args:
        angle: Lower bound in degrees, above 0 and below 90.
        normalize: Scale the embeddings to unit length first, like the losses.

    It needs O(B^2) memory, plus the memory of the triplets found.

    Example:
        >>> plane = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, 9.0]])
        >>> triplets = Angular(angle=20, normalize=False)(plane, torch.tensor([0, 0, 1, 1]))
        >>> list(zip(*(t.tolist() for t in (triplets.anchor, triplets.positive, triplets.negative))))[0]
        (0, 1, 2)
    """

    def __init__(self, *, angle: float = 20.0, normalize: bool = True) -> None:
        if not 0 < angle < 90:
            raise UsageError(f"angular: angle must be between 0 and 90 degrees, got {angle}")
        self.angle = angle
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return the triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = prepare_embeddings(embeddings, labels, normalize=self.normalize)
        squared = euclidean(points, squared=True)
        positive, negative = bool_pair_masks(labels)
        anchor, other = positive.nonzero(as_tuple=True)
        # |n - c|^2 = (|n - a|^2 + |n - p|^2) / 2 - |a - p|^2 / 4, so angle > bound becomes a bound on a sum.
        apart = squared[anchor, other]
        bound = apart / (2 * math.tan(math.radians(self.angle)) ** 2) + apart / 2
        pairs, thirds = [anchor[:0]], [anchor[:0]]
        for chunk in iterate_chunks(len(anchor), len(labels)):
            inside = squared[anchor[chunk]] + squared[other[chunk]] < bound[chunk, None]
            pair, third = (inside & negative[anchor[chunk]]).nonzero(as_tuple=True)
            pairs.append(pair + chunk.start)
            thirds.append(third)
        pair = torch.cat(pairs)
        return Triplets(anchor[pair], other[pair], torch.cat(thirds))
