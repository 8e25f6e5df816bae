"""Random tuples."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import relations
from levelfield.miners import Triplets, register
from levelfield.miners._draw import Drawing, draw
from levelfield.miners._points import checked_points


@register("random", paper="Discriminative Deep Metric Learning for Face Verification in the Wild", year=2014)
class Random(Drawing):
    """For each anchor a positive and a negative, both drawn evenly.

    An anchor without a positive or without a negative gives no triplet.

    Args:
        generator: The random stream, or
        seed: the seed of a new one.

    Example:
        >>> triplets = Random(seed=0)(torch.zeros(3, 2), torch.tensor([0, 0, 1]))
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0, 1], [1, 0], [2, 2])
    """

    @torch.no_grad()
    def __call__(self, embeddings: Tensor, labels: Tensor) -> Triplets:
        """At most B triplets for ``labels`` (B); ``embeddings`` (B x D) do not matter."""
        checked_points(embeddings, labels)
        positive, negative = relations(labels)
        uniform = self.uniform(len(labels), 2, device=labels.device)
        anchor = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
        return Triplets(
            anchor,
            draw(positive, uniform[:, :1])[anchor, 0],
            draw(negative, uniform[:, 1:])[anchor, 0],
        )
