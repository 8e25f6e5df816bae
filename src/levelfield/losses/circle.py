"""Circle loss, on pairs of samples."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.losses import register
from levelfield.losses._distances import checked, products, unit
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def circle(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    m: float = 0.4,
    gamma: float = 80.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Pairs weighted by how far they are from where they should be.

    ``log(1 + sum_n exp(gamma [s_an + m]+ (s_an - m)) sum_p exp(-gamma [1 + m - s_ap]+ (s_ap - 1 + m)))`` over
    the anchors that have both a positive and a negative; s is the cosine similarity and the brackets are
    weights without a gradient. With reduction "mean_nonzero" it equals pytorch-metric-learning's.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        m: The relaxation; similarities should pass 1 - m for positives and stay below m for negatives.
        gamma: The scale.
        reduction: How the losses of the anchors become one number.

    Returns:
        A scalar.

    Example:
        >>> circle(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]), m=0.5, gamma=1.0)
        tensor(0.5759)
    """
    similarity = products(unit(checked(embeddings, labels)))
    positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
    margins = (positive * (1 - 2 * m)).add_(m)
    with torch.no_grad():
        weights = (similarity + m).relu_().mul_(negative)
        weights.addcmul_((1 + m - similarity).relu_(), positive, value=-1).mul_(gamma)
    pull, push = log_sum_exps((similarity - margins) * weights, positive, negative)
    losses = softplus(pull + push)
    complete = positive.amax(1) * negative.amax(1)
    return reduce(losses, complete, reduction)


@register(
    "circle",
    paper="Circle Loss: A Unified Perspective of Pair Similarity Optimization",
    year=2020,
    tuples="pairs",
    reported_by=("landmarks",),
    space={"m": Float(0.0, 1.0), "gamma": Float(1.0, 512.0, log=True)},
)
class Circle(EmbeddingLoss):
    """Weigh each similarity by its distance to the optimum."""

    def __init__(self, *, m: float = 0.4, gamma: float = 80.0, reduction: Reduction = "mean") -> None:
        super().__init__(partial(circle, m=m, gamma=gamma, reduction=reduction))
