"""Generalised lifted structure loss."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.losses.npair import mean_square_norm
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def generalized_lifted(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    margin: float = 1.0,
    l2: float = 0.005,
    normalize: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """All positives of an anchor against all its negatives.

    ``[log sum_p exp(d_ap) + log sum_n exp(margin - d_an)]+`` over the anchors that have both, plus
    ``l2 * mean |x|^2``, with the Euclidean distance d of embeddings as they come ("Revisiting Training
    Strategies", eq. 3, which sums over anchors; the positives of Hermans et al. exclude the anchor, and so do
    these). pytorch-metric-learning averages over all samples and also counts those without positives. What
    "Metric Learning: A Deep Dive" prints as lifted structure is this form, on similarities.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        margin: The distance that negatives should keep.
        l2: Weight of the mean squared length of the embeddings; it is left out where there is no anchor.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the anchors become one number.

    Returns:
        A scalar.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> generalized_lifted(x, y, margin=3.0, l2=0.0)
        tensor(1.)
    """
    vectors = checked(embeddings, labels)
    distances = euclidean(unit(vectors) if normalize else vectors)
    positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
    # Distances for the positives, margin - distances for the negatives.
    exponents = margin * negative + distances * (positive - negative)
    pull, push = log_sum_exps(exponents, positive, negative)
    losses = torch.relu(pull + push)
    complete = positive.amax(1) * negative.amax(1)
    return reduce(losses, complete, reduction) + l2 * complete.amax() * mean_square_norm(vectors)


@register(
    "generalized_lifted",
    paper="In Defense of the Triplet Loss for Person Re-Identification",
    year=2017,
    tuples="pairs",
    reported_by=("revisiting",),
    space={"margin": Float(0.0, 2.0), "l2": Float(1e-4, 0.1, log=True)},
)
class GeneralizedLifted(EmbeddingLoss):
    """Weigh all positives of an anchor against all its negatives."""

    def __init__(
        self,
        *,
        margin: float = 1.0,
        l2: float = 0.005,
        normalize: bool = False,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            partial(generalized_lifted, margin=margin, l2=l2, normalize=normalize, reduction=reduction)
        )
