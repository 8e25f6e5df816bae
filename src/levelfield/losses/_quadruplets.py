"""Sums over all quadruplets of a batch, from sorted distances instead of lists of quadruplets.

A quadruplet compares a positive pair (i, j) with a pair (k, l) of two other classes. The distances of
positive pairs are sorted for the whole batch, and each pair (k, l) is looked up in them. What it finds in its
own two classes is subtracted: a class has few positive pairs, which are compared one by one, or many, which
are sorted too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.core.geometry import Triplets, attach_gradient, iterate_chunks
from levelfield.losses._reduction import TupleSum

FEW_PAIRS = 45
"""Up to this number of positive pairs per class (10 samples), a loop is faster than sorting."""


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
        anchor, other = same.triu(1).nonzero(as_tuple=True)  # each pair once: distances are symmetric
        counts = _number_of_quadruplets(group, same)
        if not len(anchor):
            return TupleSum(attach_gradient(distances.sum() * 0, distances, distances * 0), counts, counts)
        steps = distances[anchor, other] + margin
        every, every_hits = _all_classes(distances, same, steps)
        own, own_hits = _own_class(distances, same, steps, group[anchor], group)
        # The classes of k and l are left out. The distances are symmetric, so the class of k covers both.
        pushes = (every - 2 * own).masked_fill_(same, 0.0)
        pulls = every_hits - 2 * own_hits
        total = (pulls.double() * steps.double()).sum() - (pushes * distances).sum(dtype=torch.float64)
        gradient = pushes.mul_(-2)
        gradient[anchor, other] = gradient[other, anchor] = pulls.to(gradient.dtype)
        nonzero = 2 * pulls.sum()
    return TupleSum(attach_gradient(2 * total.to(distances.dtype), distances, gradient), counts, nonzero)


def _all_classes(distances: Tensor, same: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Compare all negative pairs with all positive pairs.

    Returns:
        The number of steps above each distance (B x B), and the number of negative pairs below each step.
    """
    ordered, order = steps.sort()
    below = count_below(ordered, distances).masked_fill_(same, len(steps))
    places = torch.bincount(below.flatten(), minlength=len(steps) + 1)
    hits = torch.empty_like(places[1:]).index_copy_(0, order, places.cumsum(0)[:-1])
    return (len(steps) - below).to(distances.dtype), hits


def _own_class(
    distances: Tensor, same: Tensor, steps: Tensor, step_group: Tensor, group: Tensor
) -> tuple[Tensor, Tensor]:
    """Compare the negative pairs of each sample with the positive pairs of its class; returns as above."""
    counts = torch.bincount(step_group, minlength=len(group))
    slots = int(counts.max())
    if slots > FEW_PAIRS:
        return _own_class_by_sorting(distances, same, steps, step_group, group)
    by_group = step_group.argsort(stable=True)
    slot = torch.arange(len(steps), device=steps.device) - (counts.cumsum(0) - counts)[step_group[by_group]]
    table = steps.new_full((len(group), slots), -torch.inf)
    table[step_group[by_group], slot] = steps[by_group]
    negative = (~same).to(distances.dtype)
    active, hits = torch.zeros_like(distances), torch.zeros_like(table)
    for number, limit in enumerate(table[group].unbind(1)):
        violated = (limit[:, None] - distances).relu_().sign_().mul_(negative)
        active += violated
        hits[:, number].index_add_(0, group, violated.sum(1))
    found = torch.empty_like(steps)
    found[by_group] = hits[step_group[by_group], slot]
    return active, found.round().long()


def _own_class_by_sorting(
    distances: Tensor, same: Tensor, steps: Tensor, step_group: Tensor, group: Tensor
) -> tuple[Tensor, Tensor]:
    span = float(distances.max() + steps.abs().max()) + 1
    stairs = _SortedGroups.build(steps.double(), step_group, span=span, num_groups=len(group))
    active, found = torch.zeros_like(distances), torch.zeros_like(step_group)
    for rows in iterate_chunks(len(group), len(group)):
        row, column = (~same[rows]).nonzero(as_tuple=True)
        row = row + rows.start
        above, hits = stairs.look_up(distances[row, column].double(), group[row])
        active[row, column] = above.to(active.dtype)
        found += hits
    return active, found


def count_below(ordered: Tensor, values: Tensor) -> Tensor:
    """Return the number of entries of ``ordered`` (sorted, N) that are at most each value, in any shape.

    A table over equal cells answers for the values that share their cell with no entry. Only the others are
    searched: for a batch this takes a quarter of the time of ``torch.searchsorted``.

    Example:
        >>> count_below(torch.tensor([1.0, 2.0]), torch.tensor([[0.0, 1.0], [1.5, 9.0]]))
        tensor([[0, 1],
                [1, 2]])
    """
    cells = 16 * len(ordered) + 64
    low, width = ordered[0], (ordered[-1] - ordered[0]) / (cells - 3)

    def cell(numbers: Tensor) -> Tensor:  # monotone, so cells never swap the order of two numbers
        return ((numbers - low) / width).add_(1.0).clamp_(min=0.0, max=cells - 1.0).to(torch.int32)

    if not bool((width > 0) & torch.isfinite(width) & torch.isfinite(values).all()):
        return torch.searchsorted(ordered, values.contiguous(), right=True)
    held = torch.bincount(cell(ordered), minlength=cells)
    table = (held.cumsum(0) - held).masked_fill_(held > 0, -1)
    flat = values.flatten()
    found = table.index_select(0, cell(flat))
    unclear = (found < 0).nonzero().squeeze(1)
    found[unclear] = torch.searchsorted(ordered, flat[unclear], right=True)
    return found.view(values.shape)


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
    ends: Tensor
    span: float

    @classmethod
    def build(cls, steps: Tensor, group: Tensor, *, span: float, num_groups: int) -> _SortedGroups:
        keys, order = (steps + 2 * span * group).sort()
        ends = torch.bincount(group, minlength=num_groups).cumsum(0)
        position = torch.arange(len(steps), device=steps.device)
        return cls(keys, order, position, group[order], ends, span)

    def look_up(self, values: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number of the group's entries above each value, and of values below each entry."""
        index = torch.searchsorted(self.keys, values + 2 * self.span * group, right=True)
        # A group of n entries has n + 1 places for a value; adding the group number keeps groups apart.
        places = torch.bincount(index + group, minlength=len(self.keys) + len(self.ends))
        reached = torch.nn.functional.pad(places.cumsum(0), (1, 0))
        starts = torch.nn.functional.pad(self.ends, (1, 0))[self.group]
        hits = torch.empty_like(self.order)
        hits[self.order] = reached[self.position + self.group + 1] - reached[starts + self.group]
        return self.ends[group] - index, hits


def _number_of_quadruplets(group: Tensor, same: Tensor) -> Tensor:
    sizes = torch.bincount(group)
    positives = sizes * (sizes - 1)
    apart = (~same).sum() - 2 * sizes * (len(group) - sizes)
    return (positives * apart).sum()
