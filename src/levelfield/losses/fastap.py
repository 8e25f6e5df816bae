"""FastAP: average precision by histograms."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._histogram import soft_histogram
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners._convert import pair_masks
from levelfield.space import Int


def fastap(
    embeddings: Tensor, labels: Tensor, *, num_bins: int = 10, reduction: Reduction = "mean"
) -> Tensor:
    """One minus the average precision of each anchor, with ranks read off histograms of distances.

    ``1 - 1/N+ sum_j h+_j H+_j / H_j`` over the anchors that have a positive: h+ is the histogram of the
    squared distances of the anchor's positives, H+ and H are cumulative, over its positives and over all
    others. Equals pytorch-metric-learning's, in B x B instead of B x B x num_bins memory.

    Args:
        embeddings: B x D.
        labels: B.
        num_bins: The number of intervals into which the squared distances 0..4 are cut.
        reduction: How the losses of the anchors become one number.

    Returns:
        A scalar.

    Example:
        >>> fastap(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.)
    """
    distances = euclidean(unit(checked(embeddings, labels)), squared=True)
    size = len(labels)
    positive, negative = pair_masks(labels, dtype=distances.dtype)
    anchor = torch.arange(size, dtype=torch.int32, device=labels.device)[:, None]
    groups = negative.int().mul_(size).add_(anchor)
    counts = soft_histogram(distances * (num_bins / 4), groups, num_groups=2 * size, num_nodes=num_bins + 1)
    itself = torch.eye(1, num_bins + 1, dtype=counts.dtype, device=counts.device)  # at distance zero
    pulled, pushed = counts[:size] - itself, counts[size:]
    reached = pulled.cumsum(1)
    ranked = reached + pushed.cumsum(1)
    precision = reached / torch.where(ranked > 0, ranked, 1.0)
    number = positive.sum(1)
    losses = 1 - (pulled * precision).sum(1) / number.clamp(min=1)
    return reduce(losses, number.clamp(max=1), reduction)


@register(
    "fastap",
    paper="Deep Metric Learning to Rank",
    year=2019,
    reported_by=("reality-check", "landmarks"),
    space={"num_bins": Int(2, 100)},
)
class FastAP(EmbeddingLoss):
    """Average precision with ranks read off histograms of distances."""

    takes_tuples = False

    def __init__(self, *, num_bins: int = 10, reduction: Reduction = "mean") -> None:
        super().__init__(partial(fastap, num_bins=num_bins, reduction=reduction))
