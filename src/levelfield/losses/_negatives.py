"""Losses of how many negatives come before a positive, value and gradient in one pass in B x B memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import hardshrink, threshold

from levelfield.geometry import PositivePairs, list_positives, parts
from levelfield.losses._logsumexp import FAR

Step = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From by how much each negative is above (P x B) to how much it counts, and the slope of that.

It may change what it is given. What is not a negative is very far below and must count as exactly zero."""

TEMPORARIES = 8
"""As many P x B tensors are alive at a time; small portions of them stay in a processor's cache."""


class Mates(NamedTuple):
    """Every pair of an anchor with one of its positives or with itself, of anchors that have a positive.

    Attributes:
        pairs: The P pairs.
        share: (P,) one over how many pairs the anchor has.
        anchors: How many anchors there are, at least one (a scalar).
    """

    pairs: PositivePairs
    share: Tensor
    anchors: Tensor


def mates(positive: Tensor) -> Mates:
    """The pairs of the B x B mask ``positive``, and each anchor with itself.

    Example:
        >>> found = mates(torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
        >>> found.pairs.anchor.tolist(), found.pairs.positive.tolist()
        ([0, 0, 1, 1], [0, 1, 0, 1])
        >>> found.share, found.anchors
        (tensor([0.5000, 0.5000, 0.5000, 0.5000]), tensor(2.))
    """
    has_positive = positive.amax(1)
    both = positive + torch.diag(has_positive)
    pairs = list_positives(both)
    return Mates(pairs, 1 / both.sum(1)[pairs.anchor], has_positive.sum().clamp_(min=1))


def sum_over_mates(
    similarity: Tensor,
    pairs: PositivePairs,
    negative: Tensor,
    *,
    step: Step,
    loss: Callable[[slice, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """Sum of ``loss(sum_n step(s_an - s_ak))`` over all ``pairs`` (a, k), and its gradient.

    Similarities that are equal up to rounding count as equal. Outside of autograd.

    Args:
        similarity: B x B.
        pairs: The pairs.
        negative: B x B, ones for the negatives n of a.
        step: How much a negative counts.
        loss: From a slice of the pairs, and the counts of these, to their losses and slopes by the count.

    Example:
        >>> s = torch.tensor([[1.0, 0.2, 0.5]])
        >>> pairs, negative = list_positives(torch.tensor([[0, 1, 0]])), torch.tensor([[0.0, 0.0, 1.0]])
        >>> def square(part, count):
        ...     return count**2, 2 * count
        >>> def step(above):
        ...     return above.relu(), above.relu().sign()
        >>> sum_over_mates(s, pairs, negative, step=step, loss=square)
        (tensor(0.0900), tensor([[ 0.0000, -0.6000,  0.6000]]))
    """
    total, gradient = similarity.new_zeros(()), torch.zeros_like(similarity)
    own = similarity[pairs.anchor, pairs.positive]
    rivals = (negative - 1).mul_(FAR).add_(similarity)
    for part in parts(len(own), TEMPORARIES * similarity.shape[1]):
        anchor = pairs.anchor[part]
        above = hardshrink(rivals[anchor].sub_(own[part, None]), rounding(similarity))
        counts, slopes = step(above)
        losses, slope = loss(part, counts.sum(1))
        slopes *= slope[:, None]
        total += losses.sum()
        gradient.index_add_(0, anchor, slopes)
        gradient[anchor, pairs.positive[part]] -= slopes.sum(1)
    return total, gradient


def soft_step(above: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The logistic function of above / temperature and its slope, both exactly zero far below zero.

    On a CPU it is slow where it underflows, so it is cut off long before.

    Example:
        >>> soft_step(torch.tensor([0.0, -1.0, -1e30]), 0.01)
        (tensor([0.5000, 0.0000, 0.0000]), tensor([25.,  0.,  0.]))
    """
    limit = -math.log(torch.finfo(above.dtype).tiny) / 2
    sigmoid = above.clamp(min=-limit * temperature).div_(temperature).sigmoid_()
    sigmoid = threshold(sigmoid, 2 * math.exp(-limit), 0.0, inplace=True)
    return sigmoid, torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1).div_(temperature)


def rounding(similarity: Tensor) -> float:
    """Cosines that differ by less are equal.

    Example:
        >>> rounding(torch.zeros(1)) < 1e-5
        True
    """
    return 32 * torch.finfo(similarity.dtype).eps
