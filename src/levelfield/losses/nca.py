"""Neighbourhood components analysis as a loss."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import softplus

from levelfield.losses import register
from levelfield.losses._distances import checked, products, unit
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def nca(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    softmax_scale: float = 1.0,
    normalize: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """The log-probability that an anchor picks one of its positives as neighbour.

    ``-log(sum_p exp(-scale d_ap^2) / sum_{k != a} exp(-scale d_ak^2))`` over the anchors with a positive,
    with the Euclidean distance d. Equals pytorch-metric-learning's without a miner; that one drops the
    hardest anchors, those whose probability rounds to zero, where this one keeps them.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        softmax_scale: Multiplies the squared distances.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the anchors become one number.

    Returns:
        A scalar.

    Example:
        >>> nca(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.0181)
    """
    vectors = checked(embeddings, labels)
    # -scale d^2 is 2 scale x_a . x_k less both squares; a's is common to all k, and with unit length k's too.
    vectors = (unit(vectors) if normalize else vectors) * math.sqrt(2 * softmax_scale)
    closeness = products(vectors)
    if not normalize:
        closeness = closeness - vectors.square().sum(1) / 2
    positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
    own, others = log_sum_exps(closeness, positive, negative)
    valid = positive.amax(1)
    losses = softplus(torch.where(valid > 0, others - own, 0.0))
    return reduce(losses, valid, reduction)


@register(
    "nca",
    paper="Neighbourhood Components Analysis",
    year=2004,
    tuples="pairs",
    space={"softmax_scale": Float(0.1, 100.0, log=True)},
)
class NCA(EmbeddingLoss):
    """An anchor should pick a neighbour of its own class."""

    def __init__(
        self, *, softmax_scale: float = 1.0, normalize: bool = True, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(partial(nca, softmax_scale=softmax_scale, normalize=normalize, reduction=reduction))
