"""Triplet loss."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.core.geometry import MinedTuples, Triplets, dot_products, euclidean, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, reduce
from levelfield.losses._triplets import triplet_sum


@register(
    "triplet",
    paper="FaceNet: A Unified Embedding for Face Recognition and Clustering",
    year=2015,
    tuples="triplets",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"margin": Float(0.0, 1.0)},
)
class Triplet(EmbeddingLoss):
    """Hinge on triplets: positives must be closer to the anchor than negatives, by a margin.

    ``[d(a, p) - d(a, n) + margin]+`` with the Euclidean distance d ("Revisiting Training Strategies", eq. 2);
    ``smooth`` replaces the hinge by softplus ("In Defense of the Triplet Loss"). Equals
    pytorch-metric-learning's, at quadratic instead of cubic cost.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> Triplet(margin=0.2)(x, torch.tensor([0, 0, 1]))  # violated by sqrt(2) + 0.2 and by 0.2
        tensor(0.9071)
    """

    margin: float = 0.2
    """Required difference between the distances to the negative and to the positive."""
    smooth: bool = False
    """Softplus instead of the hinge."""
    squared: bool = False
    """Squared distances, as in FaceNet; the comparison papers use plain distances."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    distance: Literal["euclidean", "cosine"] = "euclidean"
    """Euclidean distance, or one minus the cosine, as in "Metric Learning: A Deep Dive"."""
    reduction: HingeReduction = "mean_nonzero"
    """Reduction over the triplets."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        if self.distance == "cosine":
            distances = 1 - dot_products(l2_normalize(vectors))
        else:
            distances = euclidean(l2_normalize(vectors) if self.normalize else vectors, squared=self.squared)
        return triplet_loss_from_distances(
            distances, labels, tuples, margin=self.margin, smooth=self.smooth, reduction=self.reduction
        )


def triplet_loss_from_distances(
    distances: Tensor,
    labels: Tensor,
    tuples: MinedTuples | None,
    *,
    margin: float,
    smooth: bool,
    reduction: HingeReduction,
) -> Tensor:
    """Return the triplet loss of any B x B distance matrix.

    Example:
        >>> d = torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 5.0], [1.0, 5.0, 0.0]])
        >>> options = {"margin": 0.5, "smooth": False, "reduction": "sum"}
        >>> triplet_loss_from_distances(d, torch.tensor([0, 0, 1]), None, **options)
        tensor(1.5000)
    """
    if isinstance(tuples, Triplets):
        flat, rows = distances.flatten(), tuples.anchor * len(distances)
        violation = flat.gather(0, rows + tuples.positive) - flat.gather(0, rows + tuples.negative) + margin
        losses = softplus(violation) if smooth else torch.relu(violation)
        if smooth and reduction == "mean_nonzero":
            reduction = "mean"  # a softplus is never zero, except for rounding
        return reduce(losses, torch.ones_like(losses), reduction)
    positive, negative = pair_masks(labels, tuples, dtype=distances.dtype)
    return triplet_sum(distances, positive, negative, margin=margin, smooth=smooth).reduce(reduction)
