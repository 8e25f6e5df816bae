"""Triplet loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.geometry import Triplets, Tuples, euclidean, pair_masks, unit
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, reduce
from levelfield.losses._triplets import triplet_sum
from levelfield.space import Float


@register(
    "triplet",
    paper="FaceNet: A Unified Embedding for Face Recognition and Clustering",
    year=2015,
    tuples="triplets",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"margin": Float(0.0, 1.0)},
)
class Triplet(EmbeddingLoss):
    """An anchor's positives must be closer than its negatives, by a margin.

    ``[d(a, p) - d(a, n) + margin]+`` with the Euclidean distance d ("Revisiting Training Strategies", eq. 2);
    ``smooth`` replaces the hinge by softplus ("In Defense of the Triplet Loss"). Equals
    pytorch-metric-learning's, at quadratic instead of cubic cost.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> Triplet(margin=0.2)(x, torch.tensor([0, 0, 1]))  # violated by sqrt(2) + 0.2 and by 0.2
        tensor(0.9071)
    """

    margin: float = 0.2
    """By how much the negative must be further away."""
    smooth: bool = False
    """Softplus in place of the hinge."""
    squared: bool = False
    """Squared distances, as FaceNet has it; the studies take plain ones."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """How the losses of the triplets become one number."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        distances = euclidean(unit(vectors) if self.normalize else vectors, squared=self.squared)
        return triplet_of_distances(
            distances, labels, tuples, margin=self.margin, smooth=self.smooth, reduction=self.reduction
        )


def triplet_of_distances(
    distances: Tensor,
    labels: Tensor,
    tuples: Tuples | None,
    *,
    margin: float,
    smooth: bool,
    reduction: HingeReduction,
) -> Tensor:
    """The triplet loss of any B x B distance matrix.

    Example:
        >>> d = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 5.0], [1.0, 5.0, 0.0]])
        >>> triplet_of_distances(d, torch.tensor([0, 0, 1]), None, margin=0.5, smooth=False, reduction="sum")
        tensor(1.5000)
    """
    if isinstance(tuples, Triplets):
        flat, rows = distances.flatten(), tuples.anchor * len(distances)
        violation = flat.gather(0, rows + tuples.positive) - flat.gather(0, rows + tuples.negative) + margin
        losses = softplus(violation) if smooth else torch.relu(violation)
        if smooth and reduction == "mean_nonzero":
            reduction = "mean"  # a softplus is never zero, but for rounding
        return reduce(losses, torch.ones_like(losses), reduction)
    positive, negative = pair_masks(labels, tuples, dtype=distances.dtype)
    return triplet_sum(distances, positive, negative, margin=margin, smooth=smooth).reduced(reduction)
