"""Losses of the number of negatives before a positive; value and gradient in one pass, B x B memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import hardshrink, threshold

from levelfield.core.geometry import PositivePairs, iterate_chunks, list_positives
from levelfield.losses._logsumexp import FAR

Step = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Function from similarity differences (P x B) to soft counts of negatives, and their slopes.

It may change its argument. Entries that are not negatives are very far below zero; they must count as exactly
zero.
"""

TEMPORARIES = 8
"""Number of P x B tensors alive at a time; chunks are sized so that they fit into the processor's cache."""


class PairsWithSelf(NamedTuple):
    """Pairs of each anchor with its positives and with itself; only anchors that have a positive.

    Attributes:
        pairs: The P pairs.
        share: (P,) one over the number of pairs of the anchor.
        anchors: Number of anchors, at least one (a scalar).
    """

    pairs: PositivePairs
    share: Tensor
    anchors: Tensor


def list_pairs_with_self(positive: Tensor) -> PairsWithSelf:
    """Return the pairs of the B x B mask ``positive``, and each anchor with itself.

    Example:
        >>> found = list_pairs_with_self(torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
        >>> found.pairs.anchor.tolist(), found.pairs.positive.tolist()
        ([0, 0, 1, 1], [0, 1, 0, 1])
        >>> found.share, found.anchors
        (tensor([0.5000, 0.5000, 0.5000, 0.5000]), tensor(2.))
    """
    has_positive = positive.amax(1)
    both = positive + torch.diag(has_positive)
    pairs = list_positives(both)
    return PairsWithSelf(pairs, 1 / both.sum(1)[pairs.anchor], has_positive.sum().clamp_(min=1))


def sum_over_pairs(
    similarity: Tensor,
    pairs: PositivePairs,
    negative: Tensor,
    *,
    step: Step,
    loss: Callable[[slice, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """Return the sum of ``loss(sum_n step(s_an - s_ak))`` over all ``pairs`` (a, k), and its gradient.

    It does not use autograd. Similarities that are equal up to rounding count as equal.

    Args:
        similarity: B x B.
        pairs: The pairs.
        negative: B x B, ones for the negatives n of a.
        step: Soft count of a negative.
        loss: Function from a slice of the pairs and their counts to their losses and the slopes by the count.

    Example:
        >>> s = torch.tensor([[1.0, 0.2, 0.5]])
        >>> pairs, negative = list_positives(torch.tensor([[0, 1, 0]])), torch.tensor([[0.0, 0.0, 1.0]])
        >>> def square(part, count):
        ...     return count**2, 2 * count
        >>> def step(above):
        ...     return above.relu(), above.relu().sign()
        >>> sum_over_pairs(s, pairs, negative, step=step, loss=square)
        (tensor(0.0900), tensor([[ 0.0000, -0.6000,  0.6000]]))
    """
    total, gradient = similarity.new_zeros(()), torch.zeros_like(similarity)
    own = similarity[pairs.anchor, pairs.positive]
    rivals = (negative - 1).mul_(FAR).add_(similarity)
    for part in iterate_chunks(len(own), TEMPORARIES * similarity.shape[1]):
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
    """Return the logistic function of above / temperature and its slope, both exactly zero far below zero.

    It is cut off before it underflows, which is slow on a CPU.

    Example:
        >>> soft_step(torch.tensor([0.0, -1.0, -1e30]), 0.01)
        (tensor([0.5000, 0.0000, 0.0000]), tensor([25.,  0.,  0.]))
    """
    limit = -math.log(torch.finfo(above.dtype).tiny) / 2
    sigmoid = above.clamp(min=-limit * temperature).div_(temperature).sigmoid_()
    sigmoid = threshold(sigmoid, 2 * math.exp(-limit), 0.0, inplace=True)
    return sigmoid, torch.addcmul(sigmoid, sigmoid, sigmoid, value=-1).div_(temperature)


def rounding(similarity: Tensor) -> float:
    """Return the rounding error of cosines; smaller differences count as ties.

    Example:
        >>> rounding(torch.zeros(1)) < 1e-5
        True
    """
    return 32 * torch.finfo(similarity.dtype).eps
