"""Quadruplet loss."""

from __future__ import annotations

from torch import Tensor

from levelfield.geometry import Tuples, as_triplets, euclidean, unit
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._quadruplets import mined_quadruplet_sum, quadruplet_sum
from levelfield.losses._reduction import HingeReduction
from levelfield.losses.triplet import triplet_of_distances
from levelfield.space import Float


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
    with every l of a third class, each reduced by itself, with the Euclidean distance d (Chen et al.;
    "Revisiting Training Strategies", eq. 14, whose second term is garbled and is read after them).

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
        >>> y = torch.tensor([0, 0, 1, 2])
        >>> Quadruplet(margin_1=0.0, margin_2=2.0)(x, y)  # 2 - sqrt(2)
        tensor(0.5858)
    """

    margin_1: float = 1.0
    """By how much the anchor's negative must be further away than its positive."""
    margin_2: float = 0.5
    """By how much the two others must be further apart than the positives."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """How the losses of the triplets and of the quadruplets become one number each."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        distances = euclidean(unit(vectors) if self.normalize else vectors)
        near = triplet_of_distances(
            distances, labels, tuples, margin=self.margin_1, smooth=False, reduction=self.reduction
        )
        if tuples is None:
            far = quadruplet_sum(distances, labels, margin=self.margin_2)
        else:
            far = mined_quadruplet_sum(distances, labels, as_triplets(tuples), margin=self.margin_2)
        return near + far.reduced(self.reduction)
