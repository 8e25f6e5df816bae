"""Lifted structured feature embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.core.geometry import MinedTuples, euclidean, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, reduce


@register(
    "lifted_structure",
    paper="Deep Metric Learning via Lifted Structured Feature Embedding",
    year=2016,
    tuples="pairs",
    reported_by=("deep-dive",),
    space={"margin": Float(0.0, 2.0)},
)
class LiftedStructure(EmbeddingLoss):
    """Compare each positive pair with all negatives of both its samples.

    ``1/2 [log(sum_n exp(margin - d_an) + sum_n exp(margin - d_pn)) + d_ap]+^2`` over positive pairs, with the
    Euclidean distance d; a pair without any negative has no loss. Equals pytorch-metric-learning's.

    Example:
        >>> LiftedStructure(margin=2.0)(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.2402)
    """

    margin: float = 1.0
    """Required distance of negatives (alpha in the paper)."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean"
    """Reduction over the positive pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        distances = euclidean(l2_normalize(vectors) if self.normalize else vectors)
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        # logaddexp of two empty sums (-inf) has no gradient, so -inf becomes a very low number.
        pushes = log_sum_exp(self.margin - distances, negative).clamp(min=-1e30)
        losses = torch.relu(torch.logaddexp(pushes[:, None], pushes) + distances).square() / 2
        return reduce(losses, positive, self.reduction)
