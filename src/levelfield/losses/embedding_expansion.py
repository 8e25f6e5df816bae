"""Embedding Expansion: hard negatives include synthetic points between samples."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.geometry import bool_pair_masks, l2_normalize
from levelfield.core.space import Float, Int
from levelfield.losses import register
from levelfield.losses._module import RankingLoss


@register(
    "embedding_expansion",
    paper="Embedding Expansion: Augmentation in Embedding Space for Deep Metric Learning",
    year=2020,
    space={"margin": Float(0.0, 1.0), "points": Int(0, 8)},
)
class EmbeddingExpansion(RankingLoss):
    """Batch-hard triplets whose negatives include points between two samples of a class.

    Between every two samples of one class there are ``points`` synthetic points, at equal steps, scaled to
    unit length. ``[d_p - d_n + margin]+`` is averaged over the anchors. d_p is the largest distance of the
    anchor to a positive sample. d_n is the smallest distance from the anchor, or a synthetic point next to
    it, to any sample or point of another class. For classes of two samples this is the public code (HPHN
    triplet). For larger classes that code pairs neighbors in the batch; here all pairs have points between
    them. The defaults are those of the authors' command, which has 32 samples per class in batches of 128.
    With 2 or 4 per class there are far fewer points; set ``samples_per_class`` of the method. The paper's
    combinations with other losses are not included. Only the hardest positives and negatives count, so a
    network learns slowly from scratch.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> EmbeddingExpansion(points=1, margin=0.0)(x, torch.tensor([0, 0, 1]))  # sqrt(2), less about 0.14
        tensor(1.2724)
    """

    margin: float = 1e-5
    """Required difference between the distances to the negative and to the farthest positive."""
    points: Annotated[int, Field(ge=0, le=64)] = 2
    """Synthetic points between two samples of a class (n in the paper)."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss by the formula above."""
        samples = l2_normalize(vectors)
        positive, negative = bool_pair_masks(labels)
        first, second = positive.triu().nonzero(as_tuple=True)
        steps = torch.arange(1, self.points + 1, device=labels.device, dtype=samples.dtype) / (
            self.points + 1
        )
        between = torch.lerp(samples[first, None], samples[second, None], steps[:, None])
        everything = torch.cat([samples, l2_normalize(between.flatten(0, 1))])
        first, second = (end.repeat_interleave(self.points) for end in (first, second))
        with torch.no_grad():
            farthest = _squared_distances(samples, samples).masked_fill_(~positive, -1.0).argmax(dim=1)
            anchors = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
            here, there = _nearest_negatives(everything, torch.cat([labels, labels[first]]), first, second)
        if not len(anchors):
            return vectors.sum() * 0
        pull = _row_distances(samples[anchors], samples[farthest[anchors]])
        push = _row_distances(everything[here[anchors]], everything[there[anchors]])
        return F.relu(pull - push + self.margin).mean()


def _nearest_negatives(
    points: Tensor, labels: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the nearest negative pair of each sample, from it or a point next to it to another class.

    Args:
        points: N x D, the B samples first.
        labels: N.
        first: First of the two samples around each of the N - B synthetic points.
        second: Second of the two samples.

    Returns:
        Rows of ``points``: the start and the end of each pair.
    """
    squares = _squared_distances(points, points).masked_fill_(labels[:, None] == labels, torch.inf)
    gap, target = squares.min(dim=1)
    count = len(points) - len(first)
    made = torch.arange(count, len(points), device=labels.device)
    rows = torch.cat([torch.arange(count, device=labels.device), made, made])
    owner = torch.cat([rows[:count], first, second])
    smallest = gap.new_full((count,), torch.inf).scatter_reduce(0, owner, gap[rows], "amin")
    among = torch.where(gap[rows] == smallest[owner], rows, len(points) - 1)
    here = torch.full_like(rows[:count], len(points) - 1).scatter_reduce(0, owner, among, "amin")
    return here, target[here]


def _squared_distances(left: Tensor, right: Tensor) -> Tensor:
    """Return the squared distances of all rows, N x M."""
    with torch.autocast(left.device.type, enabled=False):
        sums = left.square().sum(1)[:, None] + right.square().sum(1)
        return sums.addmm_(left, right.T, alpha=-2)


def _row_distances(left: Tensor, right: Tensor) -> Tensor:
    """Return the distances of matching rows (N x D): N. The gradient of a zero distance is zero."""
    squares = (left - right).square().sum(dim=1)
    apart = squares != 0  # NaN stays NaN
    return torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)
