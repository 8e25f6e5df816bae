"""Metrix: embeddings between a positive and a negative, which are each by their share."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.geometry import Pairs, products, relations, unit
from levelfield.losses.synthesis import LossOf, Samples, Synthesis, register
from levelfield.options import Positive, Size
from levelfield.seeds import beta


@register(
    "metrix",
    paper="It Takes Two to Tango: Mixup for Deep Metric Learning",
    year=2022,
    needs="pairs",
    losses=("contrastive", "multi_similarity"),
    amount="weight",
)
class Metrix(Synthesis):
    """Blend positives with negatives: to the anchor the blend is a positive by its share, else a negative.

    The loss of the batch plus ``weight (w L+ + (1 - w) L-)``, where L+ is the loss of the pairs (anchor,
    blend) as positive pairs, L- that of the same pairs as negative pairs, and w the share of the positive in
    the blend, from Beta(alpha, alpha), once for the batch. A positive of the anchor, drawn at random, or the
    anchor itself is blended with each of its nearest negatives.

    This is Metrix on embeddings; the paper also mixes images and features, and gives the anchor all of its
    negatives, not the nearest. For ``contrastive`` the formula is the paper's. For ``multi_similarity`` the
    paper has the share inside of the logarithm, here it is outside.

    Example:
        >>> batch = Samples(torch.eye(3), torch.tensor([0, 0, 1]))
        >>> def size(made): return torch.tensor(float(len(made.embeddings)))
        >>> Metrix(weight=1.0)(batch, size, generator=torch.Generator())  # 3 + 5: two blends
        tensor(8.)
    """

    weight: Positive = 0.4
    """Of the blended pairs beside the batch's own."""
    alpha: Positive = 2.0
    """Of the Beta distribution."""
    negatives: Size = 1
    """How many of an anchor's nearest negatives are blended."""
    blend: Literal["positive", "anchor", "either"] = "either"
    """What is blended with the negatives; "either" tosses a coin for each batch."""

    def forward(self, batch: Samples, loss_of: LossOf, *, generator: torch.Generator) -> Tensor:
        """The formula above."""
        value = loss_of(batch)
        own = self.blend == "anchor"
        if self.blend == "either":
            own = bool(torch.randint(2, (1,), generator=generator))
        share = beta(self.alpha, self.alpha, generator=generator)
        anchor, positive, negative = self._choose(batch, generator)
        if not len(anchor):
            return value
        vectors = unit(batch.embeddings)
        blends = unit(share * vectors[anchor if own else positive] + (1 - share) * vectors[negative])
        everything, size = torch.cat([vectors, blends]), len(batch.labels)
        places, none = torch.arange(len(anchor), device=anchor.device) + size, anchor[:0]
        pulled = Samples(
            everything,
            torch.cat([batch.labels, batch.labels[anchor]]),
            tuples=Pairs(anchor, places, none, none, batch_size=size),
        )
        pushed = Samples(
            everything,
            torch.cat([batch.labels, batch.labels[negative]]),
            tuples=Pairs(none, none, anchor, places, batch_size=size),
        )
        return value + self.weight * (share * loss_of(pulled) + (1 - share) * loss_of(pushed))

    @torch.no_grad()
    def _choose(self, batch: Samples, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Anchors, a random positive of each, and its nearest negatives one by one: three of one length."""
        positive, negative = relations(batch.labels)
        luck = torch.rand(positive.shape, generator=generator).to(positive.device)
        drawn = luck.masked_fill_(~positive, -1.0).argmax(dim=1) if len(luck) else luck.long()
        cosines = products(unit(batch.embeddings)).masked_fill_(~negative, -torch.inf)
        nearest = cosines.topk(min(self.negatives, len(cosines)), dim=1)
        usable = torch.isfinite(nearest.values) & positive.any(dim=1, keepdim=True)
        anchor, place = usable.nonzero(as_tuple=True)
        return anchor, drawn[anchor], nearest.indices[anchor, place]
