"""The tuples of a batch as dense B x B matrices, which is what the losses compute on."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.miners._tuples import Pairs, Triplets, Tuples


def pair_masks(labels: Tensor, tuples: Tuples | None = None) -> tuple[Tensor, Tensor]:
    """Which (anchor, other) are positive and which negative pairs: two B x B boolean tensors.

    Without tuples, every ordered pair of two samples is one or the other.

    Example:
        >>> positive, negative = pair_masks(torch.tensor([0, 0, 1]))
        >>> positive.int().tolist(), negative.int().tolist()
        ([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    """
    if tuples is not None:
        positive, negative = pair_counts(labels, tuples)
        return positive > 0, negative > 0
    same = labels[:, None] == labels
    return same.clone().fill_diagonal_(False), ~same


def pair_counts(
    labels: Tensor, tuples: Tuples | None = None, *, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """How often each (anchor, other) occurs as positive and as negative pair: two B x B tensors.

    A triplet is one positive and one negative pair; without tuples every pair of the batch occurs once.

    Example:
        >>> one = Triplets(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([2, 3]))
        >>> positive, negative = pair_counts(torch.tensor([0, 0, 1, 2]), one)
        >>> positive[0].tolist(), negative[0].tolist()
        ([0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    """
    if tuples is None:
        same = labels[:, None] == labels
        return same.to(dtype).fill_diagonal_(0.0), (~same).to(dtype)
    pairs = as_pairs(tuples)
    return (
        _count(pairs.pos_anchor, pairs.positive, size=len(labels), dtype=dtype),
        _count(pairs.neg_anchor, pairs.negative, size=len(labels), dtype=dtype),
    )


def any_triplet(labels: Tensor, tuples: Tuples | None = None) -> Tensor:
    """Whether there is a triplet: a boolean scalar.

    Example:
        >>> any_triplet(torch.tensor([0, 0, 1])), any_triplet(torch.tensor([0, 0, 0]))
        (tensor(True), tensor(False))
    """
    if isinstance(tuples, Triplets):
        return torch.tensor(len(tuples.anchor) > 0, device=labels.device)
    positive, negative = pair_masks(labels, tuples)
    return (positive.any(1) & negative.any(1)).any()


def as_pairs(tuples: Tuples) -> Pairs:
    """The pairs themselves, or the (anchor, positive) and (anchor, negative) of each triplet."""
    match tuples:
        case Pairs():
            return tuples
        case Triplets(anchor=anchor, positive=positive, negative=negative):
            return Pairs(anchor, positive, anchor, negative)


def as_triplets(tuples: Tuples) -> Triplets:
    """The triplets themselves, or every triplet whose positive and negative pair share the anchor.

    The list can be long, of the order of B^3; losses that can do without it should.

    Example:
        >>> pairs = Pairs(*(torch.tensor(i) for i in ([0, 1], [1, 0], [0, 0], [2, 3])))
        >>> [t.tolist() for t in vars(as_triplets(pairs)).values()]
        [[0, 0], [1, 1], [2, 3]]
    """
    match tuples:
        case Triplets():
            return tuples
        case Pairs(pos_anchor=pos_anchor, positive=positive, neg_anchor=neg_anchor, negative=negative):
            first, second = (pos_anchor[:, None] == neg_anchor).nonzero(as_tuple=True)
            return Triplets(pos_anchor[first], positive[first], negative[second])


def _count(anchors: Tensor, others: Tensor, *, size: int, dtype: torch.dtype) -> Tensor:
    counts = torch.zeros(size * size, dtype=dtype, device=anchors.device)
    ones = torch.ones(1, dtype=dtype, device=anchors.device).expand(len(anchors))
    return counts.scatter_add_(0, anchors * size + others, ones).view(size, size)
