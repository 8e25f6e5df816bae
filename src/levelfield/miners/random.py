"""Random mining."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import bool_pair_masks
from levelfield.miners import Triplets, register
from levelfield.miners._prepare import prepare_embeddings
from levelfield.miners._randomized import RandomizedMiner, sample_columns


@register("random", paper="Discriminative Deep Metric Learning for Face Verification in the Wild", year=2014)
class Random(RandomizedMiner):
    """For each anchor, a random positive and a random negative.

    Anchors without a positive or without a negative are skipped.

    Args:
        generator: Random generator; give this or ``seed``.
        seed: Seed of a new generator. Defaults to 0.

    Example:
        >>> triplets = Random(seed=0)(torch.zeros(3, 2), torch.tensor([0, 0, 1]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0, 1], [1, 0], [2, 2])
    """

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """Return at most B triplets of ``labels`` (B); the values of ``embeddings`` (B x D) are ignored."""
        prepare_embeddings(embeddings, labels)
        positive, negative = bool_pair_masks(labels)
        uniform = self.uniform(len(labels), 2, device=labels.device)
        anchor = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
        return Triplets(
            anchor,
            sample_columns(positive, uniform[:, :1])[anchor, 0],
            sample_columns(negative, uniform[:, 1:])[anchor, 0],
        )
