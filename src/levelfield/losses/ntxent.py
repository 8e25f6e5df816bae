"""NT-Xent: the normalised, temperature-scaled cross-entropy over pairs."""

from __future__ import annotations

import math
from functools import partial

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


def ntxent(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    temperature: float = 0.1,
    reduction: Reduction = "mean",
) -> Tensor:
    """Each positive pair against the negatives of its anchor, by softmax.

    ``-log(exp(s_ap / t) / (exp(s_ap / t) + sum_n exp(s_an / t)))`` over positive pairs, with the cosine
    similarity s. Equals pytorch-metric-learning's up to its limit of 87 (float32), where that one stops
    growing and loses its gradient: at the temperature 0.0002 published for Stanford Online Products this
    happens as soon as a negative is 0.02 more similar than the positive.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        temperature: Divides the similarities.
        reduction: How the losses of the positive pairs become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> ntxent(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]), temperature=1.0)
        tensor(0.1269)
    """
    similarity = products(unit(checked(embeddings, labels)) / math.sqrt(temperature))
    positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
    rivals = log_sum_exp(similarity, negative)
    losses = softplus(rivals[:, None] - similarity)
    return reduce(losses, positive, reduction)


@register(
    "ntxent",
    paper="A Simple Framework for Contrastive Learning of Visual Representations",
    year=2020,
    tuples="pairs",
    reported_by=("reality-check", "landmarks"),
    space={"temperature": Float(1e-4, 1.0, log=True)},
)
class NTXent(EmbeddingLoss):
    """Softmax cross-entropy of each positive pair against its anchor's negatives."""

    def __init__(self, *, temperature: float = 0.1, reduction: Reduction = "mean") -> None:
        super().__init__(partial(ntxent, temperature=temperature, reduction=reduction))
