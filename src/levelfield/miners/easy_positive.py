"""Easy-positive mining."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import bool_pair_masks, euclidean
from levelfield.core.space import Choice
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings


@register(
    "easy_positive",
    paper="Improved Embeddings with Easy Positive Triplet Mining",
    year=2020,
    space={"negatives": Choice("semihard", "hard")},
)
class EasyPositive:
    """For each anchor, its nearest positive, and its nearest negative or nearest semi-hard negative.

    Args:
        negatives: "semihard" takes the nearest negative that is farther away than the positive (EPSHN in the
            paper); "hard" takes the nearest negative (EPHN). Anchors without such a negative are skipped.
        normalize: Scale the embeddings to unit length first, like the losses.

    Example:
        >>> line = torch.tensor([[0.0], [2.0], [5.0], [1.0], [3.0]])
        >>> triplets = EasyPositive(normalize=False)(line, torch.tensor([0, 0, 0, 1, 2]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0, 2], [1, 1], [4, 3])
    """

    def __init__(
        self, *, negatives: Literal["semihard", "hard"] = "semihard", normalize: bool = True
    ) -> None:
        if negatives not in ("semihard", "hard"):
            raise UsageError(f'easy_positive: negatives must be "semihard" or "hard", got {negatives!r}')
        self.negatives = negatives
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return at most B triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = prepare_embeddings(embeddings, labels, normalize=self.normalize)
        positive, negative = bool_pair_masks(labels)
        anchor = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
        distance = euclidean(points, squared=True)[anchor]
        nearest = distance.masked_fill(~positive[anchor], torch.inf).min(dim=1)
        allowed = negative[anchor]
        if self.negatives == "semihard":
            allowed = allowed & (distance > nearest.values[:, None])
        chosen = distance.masked_fill(~allowed, torch.inf).argmin(dim=1)
        keep = allowed.any(dim=1)
        return Triplets(anchor[keep], nearest.indices[keep], chosen[keep])
