"""Soft-hard mining."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import bool_pair_masks, euclidean
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings
from levelfield.miners._randomized import RandomizedMiner, sample_columns


@register("softhard", paper="MIC: Mining Interclass Characteristics for Improved Metric Learning", year=2019)
class Softhard(RandomizedMiner):
    """For each anchor, a random hard positive and a random hard negative.

    Hard negatives are nearer than the farthest positive (equation 21 of "Revisiting Training Strategies and
    Generalization Performance in Deep Metric Learning"). Hard positives are farther away than the nearest
    negative (equation 22, read as the counterpart of 21, because its printed indices are swapped). If an
    anchor has no hard negative, it has no hard positive either; such anchors are skipped unless ``fallback``
    is set.

    Args:
        fallback: Take a random positive and a random negative if none is hard, as the public code of
            "Revisiting Training Strategies" does.
        normalize: Scale the embeddings to unit length first, like the losses.
        generator: Random generator; give this or ``seed``.
        seed: Seed of a new generator. Defaults to 0.

    Example:
        >>> line = torch.tensor([[0.0], [1.0], [4.0], [3.0], [9.0]])
        >>> triplets = Softhard(normalize=False)(line, torch.tensor([0, 0, 0, 1, 1]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist()[:3], triplets.negative.tolist()[:3]
        ([0, 1, 2, 3, 4], [2, 2, 0], [3, 3, 3])
    """

    def __init__(
        self,
        *,
        fallback: bool = False,
        normalize: bool = True,
        generator: torch.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(generator=generator, seed=seed)
        self.fallback = fallback
        self.normalize = normalize

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return at most B triplets of ``embeddings`` (B x D) with ``labels`` (B)."""
        points = prepare_embeddings(embeddings, labels, normalize=self.normalize)
        positive, negative = bool_pair_masks(labels)
        uniform = self.uniform(len(labels), 2, device=labels.device)
        distance = euclidean(points, squared=True)
        farthest = distance.masked_fill(~positive, -torch.inf).amax(dim=1, keepdim=True)
        nearest = distance.masked_fill(~negative, torch.inf).amin(dim=1, keepdim=True)
        hard_negative = negative & (distance < farthest)
        hard_positive = positive & (distance > nearest)
        if self.fallback:
            nothing = ~hard_negative.any(dim=1, keepdim=True)
            hard_negative |= negative & nothing & positive.any(dim=1, keepdim=True)
            hard_positive |= positive & nothing
        anchor = hard_negative.any(dim=1).nonzero().squeeze(1)
        return Triplets(
            anchor,
            sample_columns(hard_positive, uniform[:, :1])[anchor, 0],
            sample_columns(hard_negative, uniform[:, 1:])[anchor, 0],
        )
