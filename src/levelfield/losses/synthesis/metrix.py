"""Metrix: mixup of positive and negative embeddings."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.geometry import Pairs, bool_pair_masks, dot_products, l2_normalize
from levelfield.core.options import Positive, Size
from levelfield.core.seeds import sample_beta
from levelfield.losses.synthesis import LossFunction, LossInputs, Synthesis, register


@register(
    "metrix",
    paper="It Takes Two to Tango: Mixup for Deep Metric Learning",
    year=2022,
    needs="pairs",
    losses=("contrastive", "multi_similarity"),
    amount="weight",
    recorded=("anchor_factor",),
)
class Metrix(Synthesis):
    """Blend positives with negatives; a blend is partly positive and partly negative to the anchor.

    The loss of the batch plus ``weight (w L+ + (1 - w) L-)``. L+ is the loss of the pairs (anchor, blend) as
    positive pairs, L- that of the same pairs as negative pairs. w is the share of the positive in the blend,
    from Beta(alpha, alpha), drawn once per batch. A random positive of the anchor, or the anchor itself, is
    blended with each of the anchor's nearest negatives.

    This is Metrix on embeddings. The paper also mixes images and features, and uses all negatives of an
    anchor, not the nearest. For ``contrastive`` the formula is the paper's. For ``multi_similarity`` the
    paper has the share inside the logarithm; here it is outside. The authors' contrastive loss has
    ``neg_margin`` 0.5.

    Example:
        >>> batch = LossInputs(torch.eye(3), torch.tensor([0, 0, 1]))
        >>> def size(made): return torch.tensor(float(len(made.embeddings)))
        >>> Metrix(weight=1.0)(batch, size, generator=torch.Generator())  # 3 + 5: two blends
        tensor(8.)
    """

    weight: Positive = 0.4
    """Weight of the loss of the blended pairs."""
    alpha: Positive = 2.0
    """Parameter of the Beta distribution."""
    negatives: Size = 1
    """Number of nearest negatives of an anchor to blend."""
    blend: Literal["positive", "anchor", "either"] = "either"
    """Sample to blend with the negatives; "either" chooses at random for each batch."""
    anchor_factor: Positive = 0.75
    """Factor of the weight where the anchor itself is blended: the authors' code has 0.3 there, else 0.4."""

    def forward(self, batch: LossInputs, loss_fn: LossFunction, *, generator: torch.Generator) -> Tensor:
        """Return the loss by the formula above."""
        value = loss_fn(batch)
        own = self.blend == "anchor"
        if self.blend == "either":
            own = bool(torch.randint(2, (1,), generator=generator))
        share = sample_beta(self.alpha, self.alpha, generator=generator)
        anchor, positive, negative = self._choose(batch, generator)
        if not len(anchor):
            return value
        vectors = l2_normalize(batch.embeddings)
        blends = l2_normalize(share * vectors[anchor if own else positive] + (1 - share) * vectors[negative])
        everything, size = torch.cat([vectors, blends]), len(batch.labels)
        places, none = torch.arange(len(anchor), device=anchor.device) + size, anchor[:0]
        pulled = LossInputs(
            everything,
            torch.cat([batch.labels, batch.labels[anchor]]),
            tuples=Pairs(anchor, places, none, none, batch_size=size),
        )
        pushed = LossInputs(
            everything,
            torch.cat([batch.labels, batch.labels[negative]]),
            tuples=Pairs(none, none, anchor, places, batch_size=size),
        )
        weight = self.weight * self.anchor_factor if own else self.weight
        return value + weight * (share * loss_fn(pulled) + (1 - share) * loss_fn(pushed))

    @torch.no_grad()
    def _choose(self, batch: LossInputs, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return anchors, a random positive of each, and its nearest negatives; all of equal length."""
        positive, negative = bool_pair_masks(batch.labels)
        uniform = torch.rand(positive.shape, generator=generator).to(positive.device)
        drawn = uniform.masked_fill_(~positive, -1.0).argmax(dim=1) if len(uniform) else uniform.long()
        cosines = dot_products(l2_normalize(batch.embeddings)).masked_fill_(~negative, -torch.inf)
        nearest = cosines.topk(min(self.negatives, len(cosines)), dim=1)
        usable = torch.isfinite(nearest.values) & positive.any(dim=1, keepdim=True)
        anchor, place = usable.nonzero(as_tuple=True)
        return anchor, drawn[anchor], nearest.indices[anchor, place]
