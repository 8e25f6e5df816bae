"""The tuples of a batch as dense B x B matrices, which is what the losses compute on."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.miners._tuples import Pairs, Triplets, Tuples


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
        # Numbers, not booleans: arithmetic on floats is several times faster than masking on a CPU.
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
