"""Tuplet margin loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.geometry import Tuples, pair_masks, products, unit
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.space import Float


@register(
    "tuplet_margin",
    paper="Deep Metric Learning with Tuplet Margin Loss",
    year=2019,
    tuples="pairs",
    space={"margin": Float(0.0, 30.0), "scale": Float(1.0, 256.0, log=True)},
)
class TupletMargin(EmbeddingLoss):
    """Softmax over an anchor's negatives with angular slack for the positive.

    ``log(1 + sum_n exp(scale (cos t_an - cos(t_ap - margin))))`` over positive pairs, with angles t between
    embeddings. The slack keeps the loss from chasing pairs that are too hard. Equals
    pytorch-metric-learning's, whose gradient is not finite where a positive pair coincides.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> TupletMargin(margin=0.0, scale=1.0)(x, torch.tensor([0, 0, 1]))  # log 2 and log(1 + e)
        tensor(1.0032)
    """

    margin: float = 5.73
    """The slack, in degrees (the paper's beta = 0.1 is 5.73)."""
    scale: float = 64.0
    """Multiplies the cosines."""
    reduction: Reduction = "mean"
    """How the losses of the positive pairs become one number."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        cosine = products(unit(vectors))
        positive, negative = pair_masks(labels, tuples, dtype=cosine.dtype)
        # Where the angle is zero its sine has no finite slope; the floor cuts the slope off just before.
        sine = (1 - cosine.square()).clamp(min=torch.finfo(cosine.dtype).eps).sqrt()
        slack = math.radians(self.margin)
        eased = cosine * math.cos(slack) + sine * math.sin(slack)
        losses = softplus(log_sum_exp(self.scale * cosine, negative)[:, None] - self.scale * eased)
        return reduce(losses, positive, self.reduction)
