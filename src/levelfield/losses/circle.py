"""Circle loss, on pairs of samples."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.core.geometry import MinedTuples, dot_products, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce


@register(
    "circle",
    paper="Circle Loss: A Unified Perspective of Pair Similarity Optimization",
    year=2020,
    tuples="pairs",
    reported_by=("landmarks",),
    space={"m": Float(0.0, 1.0), "gamma": Float(1.0, 512.0, log=True)},
)
class Circle(EmbeddingLoss):
    """Weight each similarity by its distance to the optimum.

    ``log(1 + sum_n exp(gamma [s_an + m]+ (s_an - m)) sum_p exp(-gamma [1 + m - s_ap]+ (s_ap - 1 + m)))`` over
    the anchors that have both a positive and a negative; s is the cosine similarity and the brackets are
    weights without a gradient. Equals pytorch-metric-learning's.

    Example:
        >>> Circle(m=0.5, gamma=1.0)(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.5759)
    """

    m: float = 0.4
    """Relaxation; positives should be above 1 - m and negatives below m."""
    gamma: float = 80.0
    """Scale of the similarities."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors))
        positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
        margins = (positive * (1 - 2 * self.m)).add_(self.m)
        with torch.no_grad():
            weights = (similarity + self.m).relu_().mul_(negative)
            weights.addcmul_((1 + self.m - similarity).relu_(), positive, value=-1).mul_(self.gamma)
        pull, push = log_sum_exps((similarity - margins) * weights, positive, negative)
        losses = softplus(pull + push)
        complete = positive.amax(1) * negative.amax(1)
        return reduce(losses, complete, self.reduction)
