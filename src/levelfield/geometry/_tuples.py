"""What a miner returns and a loss accepts: index lists into one batch.

A miner either names pairs or names triplets. A loss that needs the other kind converts:
triplets become their (anchor, positive) and (anchor, negative) pairs; pairs become every
triplet whose positive and negative pair share the anchor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor


@dataclass(frozen=True)
class Pairs:
    """Positive pairs ``(pos_anchor[i], positive[i])`` and negative pairs ``(neg_anchor[j], negative[j])``.

    Each is an int64 tensor of shape (P,) or (N,), on the device of the embeddings. ``batch_size`` says how
    many of the samples are the batch, if others of a cross-batch memory follow it; None means all. Only
    samples of the batch are anchors then, and a mean over samples is one over them.
    """

    pos_anchor: Tensor
    positive: Tensor
    neg_anchor: Tensor
    negative: Tensor
    batch_size: int | None = field(default=None, kw_only=True)

    @property
    def indices(self) -> tuple[Tensor, ...]:
        """The four index tensors."""
        return self.pos_anchor, self.positive, self.neg_anchor, self.negative


@dataclass(frozen=True)
class Triplets:
    """Triplets ``(anchor[i], positive[i], negative[i])``; each an int64 tensor of shape (T,).

    ``batch_size`` is as for :class:`Pairs`.
    """

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    batch_size: int | None = field(default=None, kw_only=True)

    @property
    def indices(self) -> tuple[Tensor, ...]:
        """The three index tensors."""
        return self.anchor, self.positive, self.negative


Tuples: TypeAlias = Pairs | Triplets


def as_pairs(tuples: Tuples) -> Pairs:
    """The pairs themselves, or the (anchor, positive) and (anchor, negative) of each triplet."""
    match tuples:
        case Pairs():
            return tuples
        case Triplets(anchor=anchor, positive=positive, negative=negative):
            return Pairs(anchor, positive, anchor, negative, batch_size=tuples.batch_size)


def as_triplets(tuples: Tuples) -> Triplets:
    """The triplets themselves, or every triplet whose positive and negative pair share the anchor.

    The list can be long, of the order of B^3; losses that can do without it should.

    Example:
        >>> from torch import tensor
        >>> pairs = Pairs(tensor([0, 1]), tensor([1, 0]), tensor([0, 0]), tensor([2, 3]))
        >>> triplets = as_triplets(pairs)
        >>> triplets.anchor.tolist(), triplets.positive.tolist(), triplets.negative.tolist()
        ([0, 0], [1, 1], [2, 3])
    """
    match tuples:
        case Triplets():
            return tuples
        case Pairs(pos_anchor=pos_anchor, positive=positive, neg_anchor=neg_anchor, negative=negative):
            first, second = (pos_anchor[:, None] == neg_anchor).nonzero(as_tuple=True)
            return Triplets(
                pos_anchor[first], positive[first], negative[second], batch_size=tuples.batch_size
            )


def with_anchors_in_batch(tuples: Tuples, batch_size: int) -> Tuples:
    """The tuples whose anchor is one of the first ``batch_size`` samples; the others are a memory.

    Example:
        >>> from torch import tensor
        >>> mined = Triplets(tensor([0, 2]), tensor([1, 3]), tensor([2, 0]))
        >>> with_anchors_in_batch(mined, 2).anchor.tolist()
        [0]
    """
    match tuples:
        case Triplets(anchor=anchor, positive=positive, negative=negative):
            kept = anchor < batch_size
            return Triplets(anchor[kept], positive[kept], negative[kept], batch_size=batch_size)
        case Pairs(pos_anchor=pos_anchor, positive=positive, neg_anchor=neg_anchor, negative=negative):
            near, far = pos_anchor < batch_size, neg_anchor < batch_size
            return Pairs(
                pos_anchor[near], positive[near], neg_anchor[far], negative[far], batch_size=batch_size
            )


def of_batch(values: Tensor, tuples: Tuples | None) -> Tensor:
    """Those of the samples' values (N x anything) that are the batch's: all, or those before a memory.

    Example:
        >>> from torch import tensor
        >>> of_batch(tensor([1.0, 2.0]), None)
        tensor([1., 2.])
    """
    if tuples is None or tuples.batch_size is None:
        return values
    return values[: tuples.batch_size]
