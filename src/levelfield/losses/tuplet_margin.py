"""Tuplet margin loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.core.geometry import MinedTuples, dot_products, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce


@register(
    "tuplet_margin",
    paper="Deep Metric Learning with Tuplet Margin Loss",
    year=2019,
    tuples="pairs",
    space={"margin": Float(0.0, 30.0), "scale": Float(1.0, 256.0, log=True)},
)
class TupletMargin(EmbeddingLoss):
    """Softmax over an anchor's negatives with an angular slack for the positive.

    ``log(1 + sum_n exp(scale (cos t_an - cos(t_ap - margin))))`` over positive pairs, with angles t between
    embeddings. The slack keeps very hard pairs from dominating. Equals
    pytorch-metric-learning's, whose gradient is infinite if two positives coincide.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> TupletMargin(margin=0.0, scale=1.0)(x, torch.tensor([0, 0, 1]))  # log 2 and log(1 + e)
        tensor(1.0032)
    """

    margin: float = 5.73
    """Slack in degrees (the paper's beta = 0.1 is 5.73)."""
    scale: float = 64.0
    """Multiplies the cosines."""
    reduction: Reduction = "mean"
    """Reduction over the positive pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        cosine = dot_products(l2_normalize(vectors))
        positive, negative = pair_masks(labels, tuples, dtype=cosine.dtype)
        # At angle zero the slope of the sine is infinite; the clamp limits it.
        sine = (1 - cosine.square()).clamp(min=torch.finfo(cosine.dtype).eps).sqrt()
        slack = math.radians(self.margin)
        eased = cosine * math.cos(slack) + sine * math.sin(slack)
        losses = softplus(log_sum_exp(self.scale * cosine, negative)[:, None] - self.scale * eased)
        return reduce(losses, positive, self.reduction)
