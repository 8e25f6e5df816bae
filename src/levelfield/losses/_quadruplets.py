"""Sums over all quadruplets of a batch, from sorted distances instead of lists of quadruplets.

A quadruplet compares a positive pair (i, j) with a pair (k, l) of two other classes. The distances of
positive pairs are sorted, once for the batch and once per class. Each pair (k, l) is looked up in the list of
the batch; what it finds in the lists of its own two classes is subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.core.geometry import Triplets, attach_gradient, iterate_chunks
from levelfield.losses._reduction import TupleSum


def quadruplet_sum(distances: Tensor, labels: Tensor, *, margin: float) -> TupleSum:
    """Return the sum of ``[d(i, j) - d(k, l) + margin]+`` with y_i = y_j, and y_i, y_k, y_l all different.

    Args:
        distances: B x B, symmetric.
        labels: B.
        margin: Added to each quadruplet.

    Example:
        >>> d = torch.tensor([[0, 5.0, 9, 9], [5.0, 0, 9, 9], [9, 9, 0, 3.0], [9, 9, 3.0, 0]])
        >>> tuple(float(v) for v in quadruplet_sum(d, torch.tensor([0, 0, 1, 2]), margin=1.0))
        (12.0, 4.0, 4.0)
    """
    with torch.no_grad():
        group = torch.unique(labels, return_inverse=True)[1]
        same = group[:, None] == group
        anchor, other = same.clone().fill_diagonal_(False).nonzero(as_tuple=True)
        steps = distances[anchor, other].double() + margin
        span = float(distances.max()) + abs(margin) + 1
        everywhere = _SortedGroups.build(steps, torch.zeros_like(anchor), span=span, num_groups=1)
        by_class = _SortedGroups.build(steps, group[anchor], span=span, num_groups=len(labels))
        total, nonzero = steps.new_zeros(()), torch.zeros((), dtype=torch.int64, device=labels.device)
        gradient = torch.zeros_like(distances)
        pulls = torch.zeros_like(steps)
        for rows in iterate_chunks(len(labels), len(labels)):
            row, column = (~same[rows]).nonzero(as_tuple=True)
            row = row + rows.start
            lengths = distances[row, column].double()
            # The distances are symmetric, so the class of k also covers that of l.
            for stairs, index, times in (
                (everywhere, torch.zeros_like(row), 1),
                (by_class, group[row], -2),
            ):
                active, summed, hits = stairs.look_up(lengths, index)
                total += times * (summed - active * lengths).sum()
                nonzero += times * active.sum()
                gradient[row, column] -= times * active.to(gradient.dtype)
                pulls += times * hits
        gradient[anchor, other] += pulls.to(gradient.dtype)
        counts = _number_of_quadruplets(group, same)
    return TupleSum(attach_gradient(total.to(distances.dtype), distances, gradient), counts, nonzero)


def mined_quadruplet_sum(distances: Tensor, labels: Tensor, triplets: Triplets, *, margin: float) -> TupleSum:
    """Return the same sum over given triplets (i, j, k), each with every l of a third class.

    Example:
        >>> d = torch.tensor([[0, 5.0, 9, 9], [5.0, 0, 9, 9], [9, 9, 0, 3.0], [9, 9, 3.0, 0]])
        >>> one = Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
        >>> mined_quadruplet_sum(d, torch.tensor([0, 0, 1, 2]), one, margin=1.0).total
        tensor(3.)
    """
    with torch.no_grad():
        gradient = torch.zeros_like(distances)
        total = distances.new_zeros(())
        counts, nonzero = (torch.zeros((), dtype=torch.int64, device=labels.device) for _ in range(2))
        for part in iterate_chunks(len(triplets.anchor), len(labels)):
            i, j, k = triplets.anchor[part], triplets.positive[part], triplets.negative[part]
            third = (labels != labels[i][:, None]) & (labels != labels[k][:, None])
            violation = distances[i, j][:, None] + margin - distances[k]
            violated = third & (violation > 0)
            total += (violation * violated).sum()
            counts += third.sum()
            nonzero += violated.sum()
            slope = violated.to(gradient.dtype)
            gradient.index_add_(0, k, slope, alpha=-1)
            gradient.index_put_((i, j), slope.sum(1), accumulate=True)
    return TupleSum(attach_gradient(total, distances, gradient), counts, nonzero)


class _SortedGroups(NamedTuple):
    """Sorted values of several groups in one list; ``keys`` separate the groups by multiples of a span."""

    keys: Tensor
    order: Tensor
    position: Tensor
    group: Tensor
    sums: Tensor
    ends: Tensor
    span: float

    @classmethod
    def build(cls, steps: Tensor, group: Tensor, *, span: float, num_groups: int) -> _SortedGroups:
        keys, order = (steps + 2 * span * group).sort()
        sums = torch.nn.functional.pad(steps[order].cumsum(0), (1, 0))
        ends = torch.bincount(group, minlength=num_groups).cumsum(0)
        position = torch.arange(len(steps), device=steps.device)
        return cls(keys, order, position, group[order], sums, ends, span)

    def look_up(self, values: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return number and sum of the group's entries above each value, and the values below each entry."""
        index = torch.searchsorted(self.keys, values + 2 * self.span * group, right=True)
        ends = self.ends[group]
        # A group of n entries has n + 1 places for a value; adding the group number keeps groups apart.
        places = torch.bincount(index + group, minlength=len(self.keys) + len(self.ends))
        reached = torch.nn.functional.pad(places.cumsum(0), (1, 0))
        starts = torch.nn.functional.pad(self.ends, (1, 0))[self.group]
        hits = torch.zeros_like(self.keys)
        first = starts + self.group
        hits[self.order] = (reached[self.position + self.group + 1] - reached[first]).to(hits.dtype)
        return ends - index, self.sums[ends] - self.sums[index], hits


def _number_of_quadruplets(group: Tensor, same: Tensor) -> Tensor:
    sizes = torch.bincount(group)
    positives = sizes * (sizes - 1)
    apart = (~same).sum() - 2 * sizes * (len(group) - sizes)
    return (positives * apart).sum()
