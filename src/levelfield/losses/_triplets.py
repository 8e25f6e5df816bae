"""Sums over all triplets of a batch without ever listing them, in B x B memory.

An anchor with few positives takes them one after the other, each against all negatives. For an anchor with
many, their distances are sorted into a staircase in which each negative's distance is looked up: that tells
how many positives it violates and by how much, and with it the gradient, which for a hinge is a count.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from levelfield.geometry import list_positives, with_gradient
from levelfield.losses._reduction import Sum

FEW_POSITIVES = 16
"""Up to here going through the positives is quicker than sorting and looking up."""


def triplet_sum(
    distances: Tensor, positive: Tensor, negative: Tensor, *, margin: float, smooth: bool = False
) -> Sum:
    """Sum of ``[d(a, p) - d(a, n) + margin]+`` over all triplets, or of its softplus.

    Args:
        distances: B x B.
        positive: B x B, one where (anchor, positive) is a pair, else zero.
        negative: B x B, one where (anchor, negative) is a pair, else zero.
        margin: Added to each triplet.
        smooth: ``log(1 + exp(.))`` in place of the hinge.

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
            total, pushes, pulls = _one_by_one(limits, distances, negative, smooth=smooth)
        else:
            total, pushes, pulls = _by_staircase(limits, distances, negative)
        gradient = pushes.neg_()
        gradient[pairs.anchor, pairs.positive] += pulls[pairs.anchor, pairs.slot]
        counts = (positive.sum(1) * negative.sum(1)).sum()
        nonzero = counts if smooth else pulls.sum()
    return Sum(with_gradient(total, distances, gradient), counts, nonzero)


def _one_by_one(
    limits: Tensor, distances: Tensor, negative: Tensor, *, smooth: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The sum over triplets, and its slopes at each negative (B x B) and at each positive (B x slots)."""
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


def _by_staircase(limits: Tensor, distances: Tensor, negative: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same for the hinge, in O(B^2 log slots)."""
    width = limits.shape[1]
    steps, order = limits.sort(dim=1)
    below = torch.searchsorted(steps, distances, right=True).masked_fill_(negative == 0, width)
    # Sum of the steps from the k-th on: what the violated positives add up to.
    rest = pad(steps.nan_to_num(neginf=0.0), (0, 1)).flip(1).cumsum(1).flip(1)
    violated = (width - below).to(distances.dtype)
    total = (rest.gather(1, below) - violated * distances).sum()
    # The k-th step is violated by the negatives that have at most k steps below them.
    reached = torch.zeros_like(rest).scatter_add_(1, below, negative).cumsum(1)
    pulls = torch.zeros_like(steps).scatter_(1, order, reached[:, :width])
    return total, violated, pulls
