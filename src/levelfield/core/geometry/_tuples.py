"""Mined tuples: pairs or triplets of row numbers of a batch. Miners return them, losses accept them.

A miner returns either pairs or triplets. A loss converts them if it needs the other kind: triplets become
their (anchor, positive) and (anchor, negative) pairs; pairs become all triplets that combine a positive and
a negative pair of the same anchor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor


@dataclass(frozen=True)
class Pairs:
    """Positive pairs ``(pos_anchor[i], positive[i])`` and negative pairs ``(neg_anchor[j], negative[j])``.

    Each is an int64 tensor of shape (P,) or (N,), on the device of the embeddings.

    ``batch_size`` is the number of samples in the batch if samples of a cross-batch memory follow it; None
    if all samples are the batch. With a memory, only samples of the batch are anchors, and means over
    samples are taken over the batch.
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
    """Triplets ``(anchor[i], positive[i], negative[i])``; each is an int64 tensor of shape (T,).

    ``batch_size`` has the same meaning as in :class:`Pairs`.
    """

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    batch_size: int | None = field(default=None, kw_only=True)

    @property
    def indices(self) -> tuple[Tensor, ...]:
        """The three index tensors."""
        return self.anchor, self.positive, self.negative


MinedTuples: TypeAlias = Pairs | Triplets


def as_pairs(tuples: MinedTuples) -> Pairs:
    """Return the tuples as pairs: (anchor, positive) and (anchor, negative) of each triplet."""
    match tuples:
        case Pairs():
            return tuples
        case Triplets(anchor=anchor, positive=positive, negative=negative):
            return Pairs(anchor, positive, anchor, negative, batch_size=tuples.batch_size)


def as_triplets(tuples: MinedTuples) -> Triplets:
    """Return the tuples as triplets: all combinations of a positive and a negative pair of the same anchor.

    The list can hold O(B^3) triplets; avoid it in losses if possible.

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


def keep_batch_anchors(tuples: MinedTuples, batch_size: int) -> MinedTuples:
    """Return the tuples whose anchor is one of the first ``batch_size`` samples, not a sample of a memory.

    Example:
        >>> from torch import tensor
        >>> mined = Triplets(tensor([0, 2]), tensor([1, 3]), tensor([2, 0]))
        >>> keep_batch_anchors(mined, 2).anchor.tolist()
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


def select_batch_rows(values: Tensor, tuples: MinedTuples | None) -> Tensor:
    """Return the rows of ``values`` (N x anything) that belong to the batch, without those of a memory.

    Example:
        >>> from torch import tensor
        >>> select_batch_rows(tensor([1.0, 2.0]), None)
        tensor([1., 2.])
    """
    if tuples is None or tuples.batch_size is None:
        return values
    return values[: tuples.batch_size]
