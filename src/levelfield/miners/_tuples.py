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
