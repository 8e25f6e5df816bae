"""NT-Xent: the normalized, temperature-scaled cross-entropy over pairs."""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import softplus

from levelfield.core.geometry import MinedTuples, dot_products, l2_normalize, pair_masks
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce


@register(
    "ntxent",
    paper="A Simple Framework for Contrastive Learning of Visual Representations",
    year=2020,
    tuples="pairs",
    reported_by=("reality-check", "landmarks"),
    space={"temperature": Float(1e-4, 1.0, log=True)},
)
class NTXent(EmbeddingLoss):
    """Softmax cross-entropy of each positive pair against its anchor's negatives.

    ``-log(exp(s_ap / t) / (exp(s_ap / t) + sum_n exp(s_an / t)))`` over positive pairs, with the cosine
    similarity s. Equals pytorch-metric-learning's up to a value of 87 (float32), where that one stops
    growing and loses its gradient. At the temperature 0.0002 published for Stanford Online Products, that
    happens when a negative is 0.02 more similar than the positive.

    Example:
        >>> import torch
        >>> NTXent(temperature=1.0)(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.1269)
    """

    temperature: float = 0.1
    """Divides the similarities."""
    reduction: Reduction = "mean"
    """Reduction over the positive pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        similarity = dot_products(l2_normalize(vectors) / math.sqrt(self.temperature))
        positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
        rivals = log_sum_exp(similarity, negative)
        losses = softplus(rivals[:, None] - similarity)
        return reduce(losses, positive, self.reduction)
