"""FastAP: average precision by histograms."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import euclidean, l2_normalize, pair_masks
from levelfield.core.options import Size
from levelfield.core.space import Int
from levelfield.losses import register
from levelfield.losses._histogram import soft_histogram
from levelfield.losses._module import RankingLoss
from levelfield.losses._reduction import Reduction, reduce


@register(
    "fastap",
    paper="Deep Metric Learning to Rank",
    year=2019,
    reported_by=("reality-check", "landmarks"),
    space={"num_bins": Int(2, 100)},
)
class FastAP(RankingLoss):
    """Average precision with ranks from histograms of distances.

    One minus the average precision of each anchor.

    ``1 - 1/N+ sum_j h+_j H+_j / H_j`` over the anchors that have a positive: h+ is the histogram of the
    squared distances of the anchor's positives, H+ and H are cumulative, over its positives and over all
    others. Equals pytorch-metric-learning's, in B x B instead of B x B x num_bins memory.

    Example:
        >>> FastAP()(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.)
    """

    num_bins: Size = 10
    """Number of bins of the squared distances 0..4."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        distances = euclidean(l2_normalize(vectors), squared=True)
        size = len(labels)
        positive, negative = pair_masks(labels, dtype=distances.dtype)
        anchor = torch.arange(size, dtype=torch.int32, device=labels.device)[:, None]
        groups = negative.int().mul_(size).add_(anchor)
        counts = soft_histogram(
            distances * (self.num_bins / 4), groups, num_groups=2 * size, num_nodes=self.num_bins + 1
        )
        itself = torch.eye(1, self.num_bins + 1, dtype=counts.dtype, device=counts.device)  # at distance zero
        pulled, pushed = counts[:size] - itself, counts[size:]
        reached = pulled.cumsum(1)
        ranked = reached + pushed.cumsum(1)
        precision = reached / torch.where(ranked > 0, ranked, 1.0)
        number = positive.sum(1)
        losses = 1 - (pulled * precision).sum(1) / number.clamp(min=1)
        return reduce(losses, number.clamp(max=1), self.reduction)
