"""Sums over all triplets of a batch without ever listing them: B x B memory and no B x B x B work.

The distances of an anchor's positives, sorted, are the steps of a staircase; each negative's distance is
looked up in it. That gives how many positives are violated and by how much, and at the same time the
gradient, which for a hinge is a count.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.losses._reduction import with_gradient

FEW_POSITIVES = 8
"""Up to here comparing with every positive is quicker than a binary search."""


class TripletSum(NamedTuple):
    """Sum of the triplets' losses, and how many triplets there are and have a loss above zero (scalars)."""

    total: Tensor
    counts: Tensor
    nonzero: Tensor


class Positives(NamedTuple):
    """Where the positives of each anchor are: P pairs (row, column), the slot-th of its row; width slots."""

    row: Tensor
    column: Tensor
    slot: Tensor
    width: int

    def spread(self, matrix: Tensor, *, fill: float) -> Tensor:
        """The positives' entries of a B x B matrix as B x width, the empty slots filled."""
        table = matrix.new_full((len(matrix), self.width), fill)
        table[self.row, self.slot] = matrix[self.row, self.column]
        return table


def positives_of(mask: Tensor) -> Positives:
    """The true entries of a B x B mask, numbered within their row.

    Example:
        >>> positives_of(torch.tensor([[False, True], [False, False]])).width
        1
    """
    row, column = mask.nonzero(as_tuple=True)
    per_row = mask.sum(1)
    first = per_row.cumsum(0) - per_row
    slot = torch.arange(len(row), device=mask.device) - first[row]
    return Positives(row, column, slot, int(per_row.max()) if len(row) else 0)


def hinge_sum(distances: Tensor, positive: Tensor, negative: Tensor, *, margin: float) -> TripletSum:
    """Sum of ``[d(a, p) - d(a, n) + margin]+`` over all triplets.

    Args:
        distances: B x B.
        positive: B x B mask of (anchor, positive).
        negative: B x B mask of (anchor, negative).
        margin: Added to each triplet.

    Example:
        >>> d = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 5.0], [1.0, 5.0, 0.0]])
        >>> same = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)
        >>> other = torch.tensor([[0, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=torch.bool)
        >>> tuple(float(value) for value in hinge_sum(d, same, other, margin=0.5))
        (1.5, 2.0, 1.0)
    """
    with torch.no_grad():
        where = positives_of(positive)
        steps, order = where.spread(distances + margin, fill=-torch.inf).sort(dim=1)
        below = _number_of_steps_below(steps, distances).masked_fill_(~negative, where.width)
        # Sum of the steps from the k-th on: what the violated positives add up to.
        rest = torch.nn.functional.pad(steps.nan_to_num(neginf=0.0), (0, 1)).flip(1).cumsum(1).flip(1)
        violated = (where.width - below).to(distances.dtype)
        total = (rest.gather(1, below) - violated * distances).sum()
        # The k-th step is violated by the negatives that have at most k steps below them.
        reached = torch.zeros_like(rest).scatter_add_(1, below, negative.to(rest.dtype)).cumsum(1)
        pulls = torch.zeros_like(steps).scatter_(1, order, reached[:, : where.width])
        gradient = violated.neg_()
        gradient[where.row, where.column] += pulls[where.row, where.slot]
    return TripletSum(with_gradient(total, distances, gradient), _count(positive, negative), pulls.sum())


def smooth_sum(distances: Tensor, positive: Tensor, negative: Tensor, *, margin: float) -> TripletSum:
    """Sum of ``log(1 + exp(d(a, p) - d(a, n) + margin))`` over all triplets; arguments as in hinge_sum.

    Example:
        >>> d = torch.tensor([[0.0, 2.0, 2.0], [2.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
        >>> same = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=torch.bool)
        >>> other = torch.tensor([[0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=torch.bool)
        >>> smooth_sum(d, same, other, margin=0.0).total  # one triplet, log 2
        tensor(0.6931)
    """
    with torch.no_grad():
        where = positives_of(positive)
        table = where.spread(distances + margin, fill=-torch.inf)
        pulls = torch.zeros_like(table)
        gradient = torch.zeros_like(distances)
        total = distances.new_zeros(())
        for slot in range(where.width):
            violation = (table[:, slot, None] - distances).masked_fill_(~negative, -torch.inf)
            total += softplus(violation).sum()
            slope = violation.sigmoid_()
            gradient -= slope
            pulls[:, slot] = slope.sum(1)
        gradient[where.row, where.column] += pulls[where.row, where.slot]
    counts = _count(positive, negative)
    return TripletSum(with_gradient(total, distances, gradient), counts, counts)


def _count(positive: Tensor, negative: Tensor) -> Tensor:
    return (positive.sum(1) * negative.sum(1)).sum()


def _number_of_steps_below(steps: Tensor, distances: Tensor) -> Tensor:
    """For each entry of ``distances`` (B x B): how many of its row's sorted ``steps`` (B x P) are <= it."""
    if steps.shape[1] > FEW_POSITIVES:
        return torch.searchsorted(steps, distances, right=True)
    below = torch.zeros_like(distances, dtype=torch.int64)
    for step in steps.unbind(1):
        below += step[:, None] <= distances
    return below
