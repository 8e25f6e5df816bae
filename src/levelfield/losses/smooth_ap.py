"""Smooth-AP: average precision with soft ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import pair_masks, products, unit
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._ranks import soft_ranks
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


@register(
    "smooth_ap",
    paper="Smooth-AP: Smoothing the Path Towards Large-Scale Image Retrieval",
    year=2020,
    space={"temperature": Float(1e-3, 0.1, log=True)},
)
class SmoothAP(RankingLoss):
    """Average precision with soft ranks.

    One minus the average precision of each anchor, with sigmoids in place of comparisons.

    ``1 - 1/|P| sum_p (1 + sum_{q in P} sig(s_aq - s_ap)) / (1 + sum_{k != a} sig(s_ak - s_ap))`` over the
    anchors that have a positive, where ``sig(x) = 1 / (1 + exp(-x / temperature))`` and s is the cosine
    similarity; the anchor itself is not ranked, nor p against itself.

    Example:
        >>> SmoothAP()(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.)
    """

    temperature: float = 0.01
    """Of the sigmoids; the smaller, the closer to the true ranks."""
    reduction: Reduction = "mean"
    """How the losses of the anchors become one number."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The formula above."""
        similarity = products(unit(vectors))
        positive, _ = pair_masks(labels, dtype=similarity.dtype)
        ranks = soft_ranks(similarity, positive, temperature=self.temperature)
        number = positive.sum(1)
        precision = torch.zeros_like(similarity[:, 0]).index_add(
            0, ranks.anchor, ranks.among_positives / ranks.overall
        )
        losses = 1 - precision / number.clamp(min=1)
        return reduce(losses, number.clamp(max=1), self.reduction)
