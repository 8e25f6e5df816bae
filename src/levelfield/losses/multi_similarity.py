"""Multi-similarity loss."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, products, unit
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def multi_similarity(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    base: float = 0.5,
    reduction: Reduction = "mean",
) -> Tensor:
    """Soft maxima of each anchor's dissimilar positives and similar negatives.

    ``1/alpha log(1 + sum_p exp(-alpha (s_ap - base))) + 1/beta log(1 + sum_n exp(beta (s_an - base)))`` over
    all samples as anchors, with the cosine similarity s ("Revisiting Training Strategies", eq. 12, without
    the mining of eq. 11, which is the miner ``multi_similarity``). Equals pytorch-metric-learning's.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        alpha: Sharpness for positives.
        beta: Sharpness for negatives.
        base: The similarity around which both turn (lambda in the paper).
        reduction: How the losses of the anchors become one number; "mean" is over all B.

    Returns:
        A scalar.

    Example:
        >>> x = torch.tensor([[1.0], [1.0], [-1.0]])
        >>> multi_similarity(x, torch.tensor([0, 0, 1]), alpha=1.0, beta=1.0, base=0.0)
        tensor(0.6015)
    """
    similarity = products(unit(checked(embeddings, labels)))
    positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
    sharpness = (positive * -(alpha + beta)).add_(beta)
    pull, push = log_sum_exps((similarity - base) * sharpness, positive, negative, plus_one=True)
    losses = pull / alpha + push / beta
    return reduce(losses, torch.ones_like(losses), reduction)


@register(
    "multi_similarity",
    paper="Multi-Similarity Loss with General Pair Weighting for Deep Metric Learning",
    year=2019,
    tuples="pairs",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={
        "alpha": Float(0.01, 50.0, log=True),
        "beta": Float(1.0, 200.0, log=True),
        "base": Float(0.0, 1.0),
    },
)
class MultiSimilarity(EmbeddingLoss):
    """Weigh each pair by its own similarity and by those of its rivals."""

    def __init__(
        self, *, alpha: float = 2.0, beta: float = 50.0, base: float = 0.5, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(partial(multi_similarity, alpha=alpha, beta=beta, base=base, reduction=reduction))
