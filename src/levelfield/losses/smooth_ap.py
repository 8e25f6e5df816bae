"""Smooth-AP: average precision with soft ranks."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import dot_products, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.losses._ranks import soft_ranks
from levelfield.losses._reduction import Reduction, reduce


@register(
    "smooth_ap",
    paper="Smooth-AP: Smoothing the Path Toward Large-Scale Image Retrieval",
    year=2020,
    recorded=("rank_anchor",),
    space={"temperature": Float(1e-3, 0.1, log=True)},
)
class SmoothAP(RankingLoss):
    """Average precision with soft ranks.

    One minus the average precision of each anchor, with sigmoids instead of comparisons.

    ``1 - 1/|P| sum_p (1 + sum_{q in P} sig(s_aq - s_ap)) / (1 + sum_k sig(s_ak - s_ap))`` over the anchors
    that have a positive, where ``sig(x) = 1 / (1 + exp(-x / temperature))`` and s is the cosine similarity; p
    is not ranked against itself. P are the samples of the anchor's class. As in the authors' code, the anchor
    is one of them, so one of |P| precisions is always 1; ``rank_anchor=False`` leaves it out, and the loss is
    one minus the average precision.

    Example:
        >>> SmoothAP()(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.)
    """

    temperature: float = 0.01
    """Temperature of the sigmoids; smaller is closer to the true ranks."""
    rank_anchor: bool = True
    """Count the anchor as one of its positives."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors))
        positive, _ = pair_masks(labels, dtype=similarity.dtype)
        has_positive = positive.sum(1).clamp(max=1)
        if self.rank_anchor:
            positive.fill_diagonal_(1.0)
        ranks = soft_ranks(similarity, positive, temperature=self.temperature, rank_anchor=self.rank_anchor)
        number = positive.sum(1)
        precision = torch.zeros_like(similarity[:, 0]).index_add(
            0, ranks.anchor, ranks.among_positives / ranks.overall
        )
        losses = 1 - precision / number.clamp(min=1)
        return reduce(losses, has_positive, self.reduction)
