"""Lifted structured feature embedding."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._logsumexp import log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_masks
from levelfield.space import Float


def lifted_structure(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    margin: float = 1.0,
    normalize: bool = True,
    reduction: Reduction = "mean",
) -> Tensor:
    """Each positive pair against all negatives of both its ends.

    ``1/2 [log(sum_n exp(margin - d_an) + sum_n exp(margin - d_pn)) + d_ap]+^2`` over positive pairs, with the
    Euclidean distance d; a pair without any negative has no loss. Equals pytorch-metric-learning's.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice, taken as a set; all pairs of the batch if None.
        margin: The distance that negatives should keep (alpha in the paper).
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the positive pairs become one number.

    Returns:
        A scalar.

    Example:
        >>> lifted_structure(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]), margin=2.0)
        tensor(0.2402)
    """
    vectors = checked(embeddings, labels)
    distances = euclidean(unit(vectors) if normalize else vectors)
    positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
    # Two empty sums would meet as -inf, whose gradient is undefined; a very low number serves as well.
    pushes = log_sum_exp(margin - distances, negative).clamp(min=-1e30)
    losses = torch.relu(torch.logaddexp(pushes[:, None], pushes) + distances).square() / 2
    return reduce(losses, positive, reduction)


@register(
    "lifted_structure",
    paper="Deep Metric Learning via Lifted Structured Feature Embedding",
    year=2016,
    tuples="pairs",
    reported_by=("deep-dive",),
    space={"margin": Float(0.0, 2.0)},
)
class LiftedStructure(EmbeddingLoss):
    """Weigh each positive pair against all negatives of both its ends."""

    def __init__(self, *, margin: float = 1.0, normalize: bool = True, reduction: Reduction = "mean") -> None:
        super().__init__(partial(lifted_structure, margin=margin, normalize=normalize, reduction=reduction))
