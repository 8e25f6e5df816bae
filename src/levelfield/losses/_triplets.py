"""Sums over all triplets of a batch without listing them, in B x B memory.

If anchors have few positives, each positive is compared with all negatives in turn. If they have many, the
positives' distances are sorted and each negative's distance is looked up. That gives the number of violated
positives, the size of the violations, and the gradient, which is a count for a hinge.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from levelfield.core.geometry import attach_gradient, list_positives
from levelfield.losses._reduction import TupleSum

FEW_POSITIVES = 16
"""Up to this number, a loop over the positives is faster than sorting."""


def triplet_sum(
    distances: Tensor, positive: Tensor, negative: Tensor, *, margin: float, smooth: bool = False
) -> TupleSum:
    """Return the sum of ``[d(a, p) - d(a, n) + margin]+`` over all triplets, or of its softplus.

    Args:
        distances: B x B.
        positive: B x B, one where (anchor, positive) is a pair, else zero.
        negative: B x B, one where (anchor, negative) is a pair, else zero.
        margin: Added to each triplet.
        smooth: Whether to use ``log(1 + exp(.))`` instead of the hinge.

    Example:
        >>> d = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 5.0], [1.0, 5.0, 0.0]])
        >>> same = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        >>> other = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
        >>> tuple(float(value) for value in triplet_sum(d, same, other, margin=0.5))
        (1.5, 2.0, 1.0)
    """
    with torch.no_grad():
        pairs = list_positives(positive)
        limits = pairs.table(distances[pairs.anchor, pairs.positive] + margin, fill=-torch.inf)
        if smooth or pairs.slots <= FEW_POSITIVES:
            total, pushes, pulls = _by_positive(limits, distances, negative, smooth=smooth)
        else:
            total, pushes, pulls = _by_sorting(limits, distances, negative)
        gradient = pushes.neg_()
        gradient[pairs.anchor, pairs.positive] += pulls[pairs.anchor, pairs.slot]
        counts = (positive.sum(1) * negative.sum(1)).sum()
        nonzero = counts if smooth else pulls.sum()
    return TupleSum(attach_gradient(total, distances, gradient), counts, nonzero)


def _by_positive(
    limits: Tensor, distances: Tensor, negative: Tensor, *, smooth: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sum over triplets, and its gradients at negatives (B x B) and at positives (B x slots)."""
    total = distances.new_zeros(())
    pushes = torch.zeros_like(distances)
    pulls = torch.zeros_like(limits)
    for slot, limit in enumerate(limits.unbind(1)):
        violation = limit[:, None] - distances
        losses = (softplus(violation) if smooth else violation.relu_()).mul_(negative)
        total += losses.sum()
        slope = violation.sigmoid_().mul_(negative) if smooth else losses.sign_()
        pushes += slope
        pulls[:, slot] = slope.sum(1)
    return total, pushes, pulls


def _by_sorting(limits: Tensor, distances: Tensor, negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same for the hinge, in O(B^2 log slots)."""
    width = limits.shape[1]
    steps, order = limits.sort(dim=1)
    below = torch.searchsorted(steps, distances, right=True).masked_fill_(negative == 0, width)
    # Sum of the sorted limits from the k-th on: the sum over the violated positives.
    rest = pad(steps.nan_to_num(neginf=0.0), (0, 1)).flip(1).cumsum(1).flip(1)
    violated = (width - below).to(distances.dtype)
    total = (rest.gather(1, below) - violated * distances).sum()
    # The k-th limit is violated by the negatives that have at most k limits below them.
    reached = torch.zeros_like(rest).scatter_add_(1, below, negative).cumsum(1)
    pulls = torch.zeros_like(steps).scatter_(1, order, reached[:, :width])
    return total, violated, pulls
