"""Positive and negative pairs, from labels or from mined tuples.

Miners use boolean masks. Losses use numbers: on a CPU, arithmetic on floats is several times faster than
masking.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from levelfield.core.geometry._tuples import MinedTuples, Pairs, Triplets, as_pairs


def bool_pair_masks(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the masks of positive and negative pairs of a batch: two bool B x B tensors.

    A positive pair is two different samples of one class.

    Example:
        >>> positive, negative = bool_pair_masks(torch.tensor([0, 0, 1]))
        >>> positive.nonzero().tolist(), negative.nonzero().tolist()
        ([[0, 1], [1, 0]], [[0, 2], [1, 2], [2, 0], [2, 1]])
    """
    same = labels[:, None] == labels
    return same.clone().fill_diagonal_(False), ~same


def pair_counts(
    labels: Tensor, tuples: MinedTuples | None = None, *, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return how often each (anchor, other) occurs as positive and as negative pair: two B x B tensors.

    A triplet counts as one positive and one negative pair. Without tuples, every pair occurs once.

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
    labels: Tensor, tuples: MinedTuples | None = None, *, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return the result of :func:`pair_counts` with all counts above 1 set to 1.

    Example:
        >>> positive, negative = pair_masks(torch.tensor([0, 0, 1]))
        >>> positive.tolist()
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    positive, negative = pair_counts(labels, tuples, dtype=dtype)
    if tuples is None:
        return positive, negative
    return positive.clamp_(max=1), negative.clamp_(max=1)


def any_triplet(labels: Tensor, tuples: MinedTuples | None = None) -> Tensor:
    """Return whether there is at least one triplet, as a boolean scalar tensor.

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
    """Return all positive and negative pairs whose anchor is one of the first ``anchors`` samples.

    Use it for a batch followed by the samples of a cross-batch memory. It takes O(anchors x samples) memory.

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
    """All positive pairs of a batch, sorted by anchor, with their positions in a table of one row per anchor.

    Attributes:
        anchor: Row of the anchor, (P,).
        positive: Row of the positive, (P,).
        slot: Column in the table, (P,): 0 for the first pair of an anchor, 1 for the second, and so on.
        slots: Number of columns: the largest number of positives of an anchor.
        size: Number of rows, B.
    """

    anchor: Tensor
    positive: Tensor
    slot: Tensor
    slots: int
    size: int

    def table(self, values: Tensor, *, fill: float) -> Tensor:
        """Return one value per pair (P,) as a table B x slots; empty cells hold ``fill``."""
        table = values.new_full((self.size, self.slots), fill)
        table[self.anchor, self.slot] = values
        return table


def list_positives(positive: Tensor) -> PositivePairs:
    """Return the pairs where ``positive`` (B x B, bool or numbers) is True or not zero.

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
