"""Quadruplet loss."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import MinedTuples, as_triplets, euclidean, l2_normalize
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._quadruplets import mined_quadruplet_sum, quadruplet_sum
from levelfield.losses._reduction import HingeReduction
from levelfield.losses.triplet import triplet_loss_from_distances


@register(
    "quadruplet",
    paper="Beyond Triplet Loss: A Deep Quadruplet Network for Person Re-identification",
    year=2017,
    tuples="triplets",
    reported_by=("revisiting",),
    space={"margin_1": Float(0.0, 2.0), "margin_2": Float(0.0, 2.0)},
)
class Quadruplet(EmbeddingLoss):
    """Triplet loss with a second hinge against pairs of two other classes.

    ``[d_ij - d_ik + margin_1]+`` over triplets (i, j, k) plus ``[d_ij - d_kl + margin_2]+`` over the triplets
    with every l of a third class, each reduced on its own, with the Euclidean distance d. This follows Chen
    et al.; the second term of eq. 14 of "Revisiting Training Strategies" has misprints.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
        >>> y = torch.tensor([0, 0, 1, 2])
        >>> Quadruplet(margin_1=0.0, margin_2=2.0)(x, y)  # 2 - sqrt(2)
        tensor(0.5858)
    """

    margin_1: float = 1.0
    """Required difference between the distances to the negative and to the positive."""
    margin_2: float = 0.5
    """Required difference between the distance of the two others and that of the positives."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """Reduction over the triplets, and over the quadruplets."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        distances = euclidean(l2_normalize(vectors) if self.normalize else vectors)
        near = triplet_loss_from_distances(
            distances, labels, tuples, margin=self.margin_1, smooth=False, reduction=self.reduction
        )
        if tuples is None:
            far = quadruplet_sum(distances, labels, margin=self.margin_2)
        else:
            far = mined_quadruplet_sum(distances, labels, as_triplets(tuples), margin=self.margin_2)
        return near + far.reduce(self.reduction)
