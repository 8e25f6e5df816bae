"""Triplet loss."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.losses import register
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.losses._triplets import triplet_sum
from levelfield.miners import Triplets, Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def triplet(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    margin: float = 0.2,
    smooth: bool = False,
    normalize: bool = True,
    reduction: Reduction = "mean_nonzero",
) -> Tensor:
    """An anchor's positives closer, by ``margin``, than its negatives.

    ``[d(a, p) - d(a, n) + margin]+`` with the Euclidean distance d ("Revisiting Training Strategies", eq. 2);
    ``smooth`` replaces the hinge by softplus ("In Defense of the Triplet Loss"). Equals
    pytorch-metric-learning's, at quadratic instead of cubic cost.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice; all triplets of the batch if None. Pairs stand for every triplet whose
            positive and negative pair share the anchor.
        margin: By how much the negative must be further away.
        smooth: Softplus in place of the hinge.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the triplets become one number.

    Returns:
        A scalar.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> triplet(x, torch.tensor([0, 0, 1]), margin=0.2)  # violated by sqrt(2) + 0.2 and by 0.2
        tensor(0.9071)
    """
    vectors = checked(embeddings, labels)
    distances = euclidean(unit(vectors) if normalize else vectors)
    return triplet_of_distances(distances, labels, tuples, margin=margin, smooth=smooth, reduction=reduction)


def triplet_of_distances(
    distances: Tensor,
    labels: Tensor,
    tuples: Tuples | None,
    *,
    margin: float,
    smooth: bool,
    reduction: Reduction,
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
        return reduce(losses, torch.ones_like(losses), reduction)
    positive, negative = pair_masks(labels, tuples, dtype=distances.dtype)
    return triplet_sum(distances, positive, negative, margin=margin, smooth=smooth).reduced(reduction)


@register(
    "triplet",
    paper="FaceNet: A Unified Embedding for Face Recognition and Clustering",
    year=2015,
    tuples="triplets",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"margin": Float(0.0, 1.0)},
)
class Triplet(EmbeddingLoss):
    """An anchor's positives must be closer than its negatives, by a margin."""

    def __init__(
        self,
        *,
        margin: float = 0.2,
        smooth: bool = False,
        normalize: bool = True,
        reduction: Reduction = "mean_nonzero",
    ) -> None:
        super().__init__(
            partial(triplet, margin=margin, smooth=smooth, normalize=normalize, reduction=reduction)
        )
