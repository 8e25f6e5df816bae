"""Neighborhood components analysis as a loss."""

from __future__ import annotations

import math

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
    "nca",
    paper="Neighborhood Components Analysis",
    year=2004,
    tuples="pairs",
    space={"softmax_scale": Float(0.1, 100.0, log=True)},
)
class NCA(EmbeddingLoss):
    """Log-probability that an anchor picks a neighbor of its own class.

    ``-log(sum_p exp(-scale d_ap^2) / sum_{k != a} exp(-scale d_ak^2))`` over the anchors with a positive,
    with the Euclidean distance d. Equals pytorch-metric-learning's without a miner, except that that one
    drops the hardest anchors, whose probability rounds to zero.

    Example:
        >>> NCA()(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.0181)
    """

    softmax_scale: float = 1.0
    """Multiplies the squared distances."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        # -scale d^2 is 2 scale x_a . x_k minus both squares. That of a is the same for all k; that of k is
        # the
        # same if all vectors have unit length.
        vectors = (l2_normalize(vectors) if self.normalize else vectors) * math.sqrt(2 * self.softmax_scale)
        closeness = dot_products(vectors)
        if not self.normalize:
            closeness = closeness - vectors.square().sum(1) / 2
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        own, others = log_sum_exps(closeness, positive, negative)
        valid = positive.amax(1)
        losses = softplus(torch.where(valid > 0, others - own, 0.0))
        return reduce(losses, valid, self.reduction)
