"""Tuplet margin loss."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.losses import register
from levelfield.losses._distances import checked, products, unit
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def tuplet_margin(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    margin: float = 5.73,
    scale: float = 64.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """Each positive pair against the negatives of its anchor, with slack for the hardest.

    ``log(1 + sum_n exp(scale (cos t_an - cos(t_ap - margin))))`` over positive pairs, with angles t between
    embeddings. The slack keeps the loss from chasing pairs that are too hard. Equals
    pytorch-metric-learning's, whose gradient is not finite where a positive pair coincides.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        margin: The slack, in degrees (the paper's beta = 0.1 is 5.73).
        scale: Multiplies the cosines.
        reduction: How the losses of the positive pairs become one number.

    Returns:
        A scalar.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> tuplet_margin(x, torch.tensor([0, 0, 1]), margin=0.0, scale=1.0)  # log 2 and log(1 + e)
        tensor(1.0032)
    """
    cosine = products(unit(checked(embeddings, labels)))
    positive, negative = pair_masks(labels, tuples, dtype=cosine.dtype)
    # Where the angle is zero its sine has no finite slope; the floor cuts the slope off just before.
    sine = (1 - cosine.square()).clamp(min=torch.finfo(cosine.dtype).eps).sqrt()
    slack = math.radians(margin)
    eased = cosine * math.cos(slack) + sine * math.sin(slack)
    losses = softplus(log_sum_exp(scale * cosine, negative)[:, None] - scale * eased)
    return reduce(losses, positive, reduction)


@register(
    "tuplet_margin",
    paper="Deep Metric Learning with Tuplet Margin Loss",
    year=2019,
    tuples="pairs",
    space={"margin": Float(0.0, 30.0), "scale": Float(1.0, 256.0, log=True)},
)
class TupletMargin(EmbeddingLoss):
    """Softmax over an anchor's negatives with angular slack for the positive."""

    def __init__(self, *, margin: float = 5.73, scale: float = 64.0, reduction: Reduction = "mean") -> None:
        super().__init__(partial(tuplet_margin, margin=margin, scale=scale, reduction=reduction))
