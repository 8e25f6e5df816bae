"""Embedding Expansion: the hardest negatives are sought between samples, too."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from levelfield.geometry import relations, unit
from levelfield.losses import register
from levelfield.losses._module import RankingLoss
from levelfield.space import Float, Int


@register(
    "embedding_expansion",
    paper="Embedding Expansion: Augmentation in Embedding Space for Deep Metric Learning",
    year=2020,
    space={"margin": Float(0.0, 1.0), "points": Int(0, 8)},
)
class EmbeddingExpansion(RankingLoss):
    """Batch-hard triplets whose negatives may be points between two samples of a class.

    Between every two samples of one class lie ``points`` synthetic ones, at equal steps, scaled to unit
    length. ``[d_p - d_n + margin]+`` is averaged over the anchors: d_p is the largest distance of the anchor
    to a positive, among the samples themselves; d_n is the smallest distance from the anchor, or a synthetic
    point next to it, to any sample or point of another class. This is the public code (HPHN triplet) for
    classes of two samples. For larger classes that code pairs neighbours in the batch; here all pairs have
    points between them. The paper's combinations with other losses are not here.
    Hardest positives and negatives alone: a network from scratch learns slowly by it.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
        >>> EmbeddingExpansion(points=1, margin=0.0)(x, torch.tensor([0, 0, 1]))  # sqrt(2), less about 0.14
        tensor(1.2724)
    """

    margin: float = 0.2
    """By how much a negative must be farther than the farthest positive."""
    points: Annotated[int, Field(ge=0, le=64)] = 2
    """Synthetic points between two samples of a class (n in the paper)."""

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The formula above."""
        samples = unit(vectors)
        positive, negative = relations(labels)
        first, second = positive.triu().nonzero(as_tuple=True)
        steps = torch.arange(1, self.points + 1, device=labels.device, dtype=samples.dtype) / (
            self.points + 1
        )
        between = torch.lerp(samples[first, None], samples[second, None], steps[:, None])
        everything = torch.cat([samples, unit(between.flatten(0, 1))])
        first, second = (end.repeat_interleave(self.points) for end in (first, second))
        with torch.no_grad():
            farthest = _squares(samples, samples).masked_fill_(~positive, -1.0).argmax(dim=1)
            anchors = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
            here, there = _nearest_negatives(everything, torch.cat([labels, labels[first]]), first, second)
        if not len(anchors):
            return vectors.sum() * 0
        pull = _apart(samples[anchors], samples[farthest[anchors]])
        push = _apart(everything[here[anchors]], everything[there[anchors]])
        return F.relu(pull - push + self.margin).mean()


def _nearest_negatives(
    points: Tensor, labels: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """For each sample: of it and the points next to it the one that is nearest to another class, and to what.

    Args:
        points: N x D, the B samples first.
        labels: N.
        first: One of the two samples that each of the N - B synthetic points lies between.
        second: The other one.
    """
    squares = _squares(points, points).masked_fill_(labels[:, None] == labels, torch.inf)
    gap, target = squares.min(dim=1)
    count = len(points) - len(first)
    made = torch.arange(count, len(points), device=labels.device)
    rows = torch.cat([torch.arange(count, device=labels.device), made, made])
    owner = torch.cat([rows[:count], first, second])
    smallest = gap.new_full((count,), torch.inf).scatter_reduce(0, owner, gap[rows], "amin")
    among = torch.where(gap[rows] == smallest[owner], rows, len(points) - 1)
    here = torch.full_like(rows[:count], len(points) - 1).scatter_reduce(0, owner, among, "amin")
    return here, target[here]


def _squares(left: Tensor, right: Tensor) -> Tensor:
    """Squared distances of all rows, N x M."""
    with torch.autocast(left.device.type, enabled=False):
        sums = left.square().sum(1)[:, None] + right.square().sum(1)
        return sums.addmm_(left, right.T, alpha=-2)


def _apart(left: Tensor, right: Tensor) -> Tensor:
    """Distances of rows (N x D) one by one: N. Where there is none, the gradient is zero."""
    squares = (left - right).square().sum(dim=1)
    apart = squares > 0
    return torch.where(apart, torch.where(apart, squares, 1.0).sqrt(), 0.0)
