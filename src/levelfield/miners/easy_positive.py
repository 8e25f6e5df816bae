"""Easy-positive mining."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.geometry import euclidean, relations
from levelfield.miners import Triplets, register
from levelfield.miners._points import checked_points
from levelfield.space import Choice


@register(
    "easy_positive",
    paper="Improved Embeddings with Easy Positive Triplet Mining",
    year=2020,
    space={"negatives": Choice("semihard", "hard")},
)
class EasyPositive:
    """For each anchor its nearest positive, with the nearest negative or the nearest semi-hard one.

    Args:
        negatives: "semihard" takes the nearest negative that is farther away than the positive (the paper's
            EPSHN); "hard" takes the nearest of all (EPHN). An anchor that has none gives no triplet.
        normalize: Scale the embeddings to unit length first, as the losses do.

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
        """At most B triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = checked_points(embeddings, labels, normalize=self.normalize)
        positive, negative = relations(labels)
        anchor = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
        distance = euclidean(points, squared=True)[anchor]
        nearest = distance.masked_fill(~positive[anchor], torch.inf).min(dim=1)
        allowed = negative[anchor]
        if self.negatives == "semihard":
            allowed = allowed & (distance > nearest.values[:, None])
        chosen = distance.masked_fill(~allowed, torch.inf).argmin(dim=1)
        keep = allowed.any(dim=1)
        return Triplets(anchor[keep], nearest.indices[keep], chosen[keep])
