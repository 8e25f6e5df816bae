"""Quadruplet loss."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._quadruplets import mined_quadruplet_sum, quadruplet_sum
from levelfield.losses._reduction import Reduction
from levelfield.losses.triplet import triplet_of_distances
from levelfield.miners import Tuples
from levelfield.miners._convert import as_triplets
from levelfield.space import Float


def quadruplet(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    margin_1: float = 1.0,
    margin_2: float = 0.5,
    normalize: bool = True,
    reduction: Reduction = "mean_nonzero",
) -> Tensor:
    """The triplet loss, and positive pairs closer than pairs of two other classes.

    ``[d_ij - d_ik + margin_1]+`` over triplets (i, j, k) plus ``[d_ij - d_kl + margin_2]+`` over the triplets
    with every l of a third class, each reduced by itself, with the Euclidean distance d (Chen et al.;
    "Revisiting Training Strategies", eq. 14, whose second term is garbled and is read after them).

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice of (i, j, k); all triplets of the batch if None. Pairs stand for every
            triplet whose positive and negative pair share the anchor.
        margin_1: By how much the anchor's negative must be further away than its positive.
        margin_2: By how much the two others must be further apart than the positives.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the triplets and of the quadruplets become one number each.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]])
        >>> y = torch.tensor([0, 0, 1, 2])
        >>> quadruplet(x, y, margin_1=0.0, margin_2=2.0)  # 2 - sqrt(2)
        tensor(0.5858)
    """
    vectors = checked(embeddings, labels)
    distances = euclidean(unit(vectors) if normalize else vectors)
    near = triplet_of_distances(distances, labels, tuples, margin=margin_1, smooth=False, reduction=reduction)
    if tuples is None:
        far = quadruplet_sum(distances, labels, margin=margin_2)
    else:
        far = mined_quadruplet_sum(distances, labels, as_triplets(tuples), margin=margin_2)
    return near + far.reduced(reduction)


@register(
    "quadruplet",
    paper="Beyond Triplet Loss: A Deep Quadruplet Network for Person Re-identification",
    year=2017,
    tuples="triplets",
    reported_by=("revisiting",),
    space={"margin_1": Float(0.0, 2.0), "margin_2": Float(0.0, 2.0)},
)
class Quadruplet(EmbeddingLoss):
    """Triplet loss with a second hinge against pairs of two other classes."""

    def __init__(
        self,
        *,
        margin_1: float = 1.0,
        margin_2: float = 0.5,
        normalize: bool = True,
        reduction: Reduction = "mean_nonzero",
    ) -> None:
        super().__init__(
            partial(
                quadruplet, margin_1=margin_1, margin_2=margin_2, normalize=normalize, reduction=reduction
            )
        )
