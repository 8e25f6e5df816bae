"""What a miner returns and a loss accepts: index lists into one batch.

A miner either names pairs or names triplets. A loss that needs the other kind converts:
triplets become their (anchor, positive) and (anchor, negative) pairs; pairs become every
triplet whose positive and negative pair share the anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor


@dataclass(frozen=True)
class Pairs:
    """Positive pairs ``(pos_anchor[i], positive[i])`` and negative pairs ``(neg_anchor[j], negative[j])``.

    Each is an int64 tensor of shape (P,) or (N,), on the device of the embeddings.
    """

    pos_anchor: Tensor
    positive: Tensor
    neg_anchor: Tensor
    negative: Tensor


@dataclass(frozen=True)
class Triplets:
    """Triplets ``(anchor[i], positive[i], negative[i])``; each an int64 tensor of shape (T,)."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor


Tuples: TypeAlias = Pairs | Triplets


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
            return Triplets(pos_anchor[first], positive[first], negative[second])
