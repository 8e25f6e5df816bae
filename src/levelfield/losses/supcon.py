"""Supervised contrastive loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.core.geometry import MinedTuples, dot_products, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce


@register(
    "supcon",
    paper="Supervised Contrastive Learning",
    year=2020,
    tuples="pairs",
    space={"temperature": Float(1e-4, 1.0, log=True)},
)
class SupCon(EmbeddingLoss):
    """Softmax cross-entropy of all of an anchor's positives against the whole batch.

    ``-1/|P(a)| sum_p log(exp(s_ap / t) / sum_{k != a} exp(s_ak / t))`` over the anchors that have a positive
    (the paper's L_out), with the cosine similarity s. Equals pytorch-metric-learning's, except for a
    batch without negatives, where that one returns zero and the paper's formula does not.

    Example:
        >>> SupCon(temperature=1.0)(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.1269)
    """

    temperature: float = 0.1
    """Divides the similarities."""
    reduction: Reduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors) / math.sqrt(self.temperature))
        positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
        number = positive.sum(1)
        mean = (similarity * positive).sum(1) / number.clamp(min=1)
        losses = torch.where(number > 0, log_sum_exp(similarity, positive + negative) - mean, 0.0)
        return reduce(losses, number.clamp(max=1), self.reduction)
