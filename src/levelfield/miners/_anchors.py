"""All pairs of some anchors."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.miners._tuples import Pairs


@torch.no_grad()
def pairs_of_anchors(labels: Tensor, anchors: int) -> Pairs:
    """Every positive and negative pair whose anchor is one of the first ``anchors`` samples.

    For a batch that is followed by a cross-batch memory; O(anchors x samples).

    Example:
        >>> pairs = pairs_of_anchors(torch.tensor([0, 1, 0]), 2)
        >>> pairs.pos_anchor.tolist(), pairs.positive.tolist(), pairs.negative.tolist()
        ([0], [2], [1, 0, 2])
    """
    same = labels[:anchors, None] == labels[None, :]
    positive = same.clone().fill_diagonal_(False)
    return Pairs(*positive.nonzero(as_tuple=True), *(~same).nonzero(as_tuple=True))
