"""Who is a positive or a negative of whom, from labels and from a miner's tuples.

Miners work on boolean masks. Losses work on numbers, because on a CPU arithmetic on floats is several times
faster than masking.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.geometry._tuples import Pairs, Triplets, Tuples, as_pairs


def relations(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Which pairs are positive (same class, not the sample itself) and negative: two bool B x B.

    Example:
        >>> positive, negative = relations(torch.tensor([0, 0, 1]))
        >>> positive.nonzero().tolist(), negative.nonzero().tolist()
        ([[0, 1], [1, 0]], [[0, 2], [1, 2], [2, 0], [2, 1]])
    """
    same = labels[:, None] == labels
    return same.clone().fill_diagonal_(False), ~same


def pair_counts(
    labels: Tensor, tuples: Tuples | None = None, *, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """How often each (anchor, other) occurs as positive and as negative pair: two B x B tensors.

    A triplet is one positive and one negative pair; without tuples every pair of two samples occurs once.

    Example:
        >>> two = Triplets(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([2, 3]))
        >>> positive, negative = pair_counts(torch.tensor([0, 0, 1, 2]), two)
        >>> positive[0].tolist(), negative[0].tolist()
        ([0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    """
    if tuples is None:
        same = (labels[:, None] == labels).view(torch.uint8).to(dtype)
        negative = 1 - same
        return same.fill_diagonal_(0.0), negative
    pairs = as_pairs(tuples)
    return (
        _count(pairs.pos_anchor, pairs.positive, size=len(labels), dtype=dtype),
        _count(pairs.neg_anchor, pairs.negative, size=len(labels), dtype=dtype),
    )


def pair_masks(
    labels: Tensor, tuples: Tuples | None = None, *, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Like :func:`pair_counts`, with ones for the pairs that occur and zeros for those that do not.

    Example:
        >>> positive, negative = pair_masks(torch.tensor([0, 0, 1]))
        >>> positive.tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    positive, negative = pair_counts(labels, tuples, dtype=dtype)
    if tuples is None:
        return positive, negative
    return positive.clamp_(max=1), negative.clamp_(max=1)


def any_triplet(labels: Tensor, tuples: Tuples | None = None) -> Tensor:
    """Whether there is a triplet: a boolean scalar.

    Example:
        >>> any_triplet(torch.tensor([0, 0, 1])), any_triplet(torch.tensor([0, 0, 0]))
        (tensor(True), tensor(False))
    """
    if isinstance(tuples, Triplets):
        return torch.tensor(len(tuples.anchor) > 0, device=labels.device)
    positive, negative = pair_counts(labels, tuples)
    return (positive.sum(1) * negative.sum(1)).sum() > 0


@torch.no_grad()
def pairs_of_anchors(labels: Tensor, anchors: int) -> Pairs:
    """Every positive and negative pair whose anchor is one of the first ``anchors`` samples, the batch.

    For a batch that is followed by a cross-batch memory; O(anchors x samples).

    Example:
        >>> pairs = pairs_of_anchors(torch.tensor([0, 1, 0]), 2)
        >>> pairs.pos_anchor.tolist(), pairs.positive.tolist(), pairs.negative.tolist()
        ([0], [2], [1, 0, 2])
    """
    same = labels[:anchors, None] == labels
    positive = same.clone().fill_diagonal_(False)
    positives, negatives = positive.nonzero(as_tuple=True), (~same).nonzero(as_tuple=True)
    return Pairs(*positives, *negatives, batch_size=anchors)


class PositivePairs(NamedTuple):
    """All positive pairs of a batch, sorted by anchor, each with its place in a table of one row per anchor.

    Attributes:
        anchor: (P,) rows of the batch.
        positive: (P,) rows of the same class.
        slot: (P,) the column of the table: 0 for the first pair of an anchor, 1 for its second, and so on.
        slots: The width of the table, the largest number of positives that an anchor has.
        size: B, the height of the table.
    """

    anchor: Tensor
    positive: Tensor
    slot: Tensor
    slots: int
    size: int

    def table(self, values: Tensor, *, fill: float) -> Tensor:
        """One value for each pair (P,) as a table B x slots, in which empty places hold ``fill``."""
        table = values.new_full((self.size, self.slots), fill)
        table[self.anchor, self.slot] = values
        return table


def list_positives(positive: Tensor) -> PositivePairs:
    """The pairs that ``positive`` (B x B, bool, or numbers that are not zero) marks.

    Example:
        >>> pairs = list_positives(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
        >>> pairs.anchor.tolist(), pairs.positive.tolist(), pairs.slots
        ([0], [1], 1)
        >>> pairs.table(torch.tensor([7.0]), fill=0.0).tolist()
        [[7.0], [0.0]]
    """
    anchor, other = positive.nonzero(as_tuple=True)
    counts = torch.bincount(anchor, minlength=len(positive))
    first = counts.cumsum(0) - counts
    slot = torch.arange(len(anchor), device=anchor.device) - first[anchor]
    return PositivePairs(anchor, other, slot, int(counts.max()) if len(positive) else 0, len(positive))


def _count(anchors: Tensor, others: Tensor, *, size: int, dtype: torch.dtype) -> Tensor:
    counts = torch.zeros(size * size, dtype=dtype, device=anchors.device)
    ones = torch.ones(1, dtype=dtype, device=anchors.device).expand(len(anchors))
    return counts.scatter_add_(0, anchors * size + others, ones).view(size, size)
