"""Embedding Expansion: hard negatives include synthetic points between samples."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.geometry import bool_pair_masks, l2_normalize, row_distances
from levelfield.core.space import Float, Int
from levelfield.losses import register
from levelfield.losses._logsumexp import FAR
from levelfield.losses._module import RankingLoss

CHUNK = 64  # pairs at a time; their blends fit into the processor's cache


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
        ends = samples.index_select(0, first), samples.index_select(0, second)
        between = torch.lerp(ends[0][:, None], ends[1][:, None], steps[:, None])
        everything = torch.cat([samples, l2_normalize(between.flatten(0, 1))])
        with torch.no_grad():
            squares = _squared_distances(samples, samples)
            farthest = squares.masked_fill(~positive, -1.0).argmax(dim=1)
            anchors = (positive.any(dim=1) & negative.any(dim=1)).nonzero().squeeze(1)
            lengths = everything.norm(dim=1)
            if len(first) and self.points and bool((lengths > 0.5).all()):
                norms = between.detach().norm(dim=2)
                here, there = _nearest_on_the_sphere(squares, negative, (first, second, steps, norms))
            else:
                first, second = (end.repeat_interleave(self.points) for end in (first, second))
                here, there = _nearest_negatives(
                    everything, torch.cat([labels, labels[first]]), first, second
                )
        if not len(anchors):
            return vectors.sum() * 0
        pull = row_distances(samples.index_select(0, anchors), samples.index_select(0, farthest[anchors]))
        push = row_distances(
            everything.index_select(0, here[anchors]), everything.index_select(0, there[anchors])
        )
        return F.relu(pull - push + self.margin).mean()


def _nearest_on_the_sphere(
    squares: Tensor, negative: Tensor, blend: tuple[Tensor, Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the result of :func:`_nearest_negatives` where all vectors have length 1.

    A point between two samples is their blend. So its dot products are blends of theirs: no product of long
    vectors is needed, and a negative pair of the samples stays apart from the others by a huge number.

    Args:
        squares: Squared distances of the samples, B x B.
        negative: B x B, True for two samples of two classes.
        blend: First and second sample of each of P pairs, the places of the points between them, from 0 to
            1 (S), and the lengths of the blends before they were scaled to unit length (P x S).
    """
    first, second, steps, norms = blend
    cosines = squares.mul(-0.5).add_(1.0).masked_fill_(~negative, -FAR)
    to_samples = torch.cat([cosines, _blend_rows(cosines, *blend)])  # N x B
    nearest = to_samples.amax(dim=1)
    columns = to_samples.T.contiguous()
    for one, two, length in zip(*(torch.split(part, CHUNK) for part in (first, second, norms)), strict=True):
        nearest = torch.maximum(nearest, _blend_rows(columns, one, two, steps, length).amax(dim=0))
    count = len(squares)
    here = _nearest_start(-nearest, count, *(end.repeat_interleave(len(steps)) for end in (first, second)))
    among = to_samples[here]
    sample, point = among.max(dim=1), _blend_rows(among.T.contiguous(), *blend).max(dim=0)
    return here, torch.where(point.values > sample.values, point.indices + count, sample.indices)


def _blend_rows(matrix: Tensor, first: Tensor, second: Tensor, steps: Tensor, norms: Tensor) -> Tensor:
    """Return the blends of rows of an N x M matrix, divided by ``norms`` (P x S): P S x M."""
    one, two = matrix.index_select(0, first)[:, None], matrix.index_select(0, second)[:, None]
    return torch.lerp(one, two, steps[:, None]).div_(norms[:, :, None]).flatten(0, 1)


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
    here = _nearest_start(gap, len(points) - len(first), first, second)
    return here, target[here]


def _nearest_start(gap: Tensor, count: int, first: Tensor, second: Tensor) -> Tensor:
    """Return the start of each sample's nearest negative pair: the sample, or a point next to it.

    Args:
        gap: Distance of each of N points to its nearest negative; smaller is nearer.
        count: Number of samples, B; they come first.
        first: First of the two samples around each of the N - B synthetic points.
        second: Second of the two samples.
    """
    made = torch.arange(count, len(gap), device=gap.device)
    rows = torch.cat([torch.arange(count, device=gap.device), made, made])
    owner = torch.cat([rows[:count], first, second])
    smallest = gap.new_full((count,), torch.inf).scatter_reduce(0, owner, gap[rows], "amin")
    among = torch.where(gap[rows] == smallest[owner], rows, len(gap) - 1)
    return torch.full_like(rows[:count], len(gap) - 1).scatter_reduce(0, owner, among, "amin")


def _squared_distances(left: Tensor, right: Tensor) -> Tensor:
    """Return the squared distances of all rows, N x M."""
    with torch.autocast(left.device.type, enabled=False):
        sums = left.square().sum(1)[:, None] + right.square().sum(1)
        return sums.addmm_(left, right.T, alpha=-2)
