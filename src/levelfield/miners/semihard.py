"""Semi-hard mining."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.geometry import bool_pair_masks, euclidean, list_positives
from levelfield.core.space import Choice, Float
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings
from levelfield.miners._randomized import RandomizedMiner, sample_columns
from levelfield.miners._ranking import rank_negatives


@register(
    "semihard",
    paper="FaceNet: A Unified Embedding for Face Recognition and Clustering",
    year=2015,
    space={"mode": Choice("strict", "relaxed"), "margin": Float(0.01, 1.0)},
)
class Semihard(RandomizedMiner):
    """Random negatives that are slightly farther from the anchor than the positive.

    Args:
        mode: "strict" is FaceNet's: for every positive pair, a negative with
            d(a, p) < d(a, n) < d(a, p) + margin. "relaxed" is equation 20 of "Revisiting Training
            Strategies and Generalization Performance in Deep Metric Learning": for every anchor, a random
            positive, and any negative farther away than it.
        margin: Margin of the "strict" mode.
        squared: Use squared distances, as FaceNet does. Set it to the same value as the triplet loss's option
            ``squared``, so that the loss of a semi-hard triplet is between 0 and the margin.
        fallback: Take a random negative if none qualifies, as the public code of "Revisiting Training
            Strategies" does. Without it, collapsed classes give no triplets, and the loss is zero.
        normalize: Scale the embeddings to unit length first, like the losses.
        generator: Random generator; give this or ``seed``.
        seed: Seed of a new generator. Defaults to 0.

    Without ``fallback``, pairs (or anchors, if relaxed) without such a negative are skipped.

    Example:
        >>> line = torch.tensor([[0.0], [1.0], [0.5], [1.1], [3.0]])
        >>> triplets = Semihard(margin=0.5, normalize=False)(line, torch.tensor([0, 0, 1, 2, 3]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0], [1], [3])
    """

    def __init__(
        self,
        *,
        mode: Literal["strict", "relaxed"] = "strict",
        margin: float = 0.2,
        squared: bool = False,
        fallback: bool = False,
        normalize: bool = True,
        generator: torch.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(generator=generator, seed=seed)
        if mode not in ("strict", "relaxed"):
            raise UsageError(f'semihard: mode must be "strict" or "relaxed", got {mode!r}')
        if not margin > 0:
            raise UsageError(f"semihard: margin must be above 0, got {margin}")
        self.mode = mode
        self.margin = margin
        self.squared = squared
        self.fallback = fallback
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return the triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = prepare_embeddings(embeddings, labels, normalize=self.normalize)
        distance = euclidean(points, squared=self.squared)
        positive, negative = bool_pair_masks(labels)
        if self.mode == "relaxed":
            return self._relaxed(distance, positive, negative)
        return self._strict(distance, positive, negative)

    def _strict(self, distance: Tensor, positive: Tensor, negative: Tensor) -> Triplets:
        pairs = list_positives(positive)
        ranked = rank_negatives(distance, negative)
        reach = distance[pairs.anchor, pairs.positive]
        first = ranked.count_nearer(pairs, reach, past_equal=True)
        count = ranked.count_nearer(pairs, reach + self.margin, past_equal=False) - first
        uniform = self.uniform(len(reach), device=distance.device)
        if self.fallback:
            # Negatives are ranked before all other samples, so the first ones are all negatives.
            nothing = count <= 0
            first = first.masked_fill(nothing, 0)
            count = torch.where(nothing, negative.sum(dim=1)[pairs.anchor], count)
        keep = count > 0
        anchor, first, count = pairs.anchor[keep], first[keep], count[keep]
        chosen = first + (uniform[keep] * count).long().clamp_(max=count - 1)
        return Triplets(anchor, pairs.positive[keep], ranked.order[anchor, chosen])

    def _relaxed(self, distance: Tensor, positive: Tensor, negative: Tensor) -> Triplets:
        uniform = self.uniform(len(distance), 2, device=distance.device)
        drawn = sample_columns(positive, uniform[:, :1])
        beyond = negative & (distance > distance.gather(1, drawn))
        if self.fallback:
            beyond |= negative & ~beyond.any(dim=1, keepdim=True)
        anchor = (positive.any(dim=1) & beyond.any(dim=1)).nonzero().squeeze(1)
        return Triplets(anchor, drawn[anchor, 0], sample_columns(beyond, uniform[:, 1:])[anchor, 0])
