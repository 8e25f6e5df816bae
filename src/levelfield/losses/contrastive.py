"""Contrastive loss."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, euclidean, unit
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, hinge_sum
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_counts
from levelfield.space import Float


def contrastive(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    pos_margin: float = 0.0,
    neg_margin: float = 1.0,
    normalize: bool = True,
    reduction: Reduction = "mean_nonzero",
) -> Tensor:
    """Positive pairs closer than ``pos_margin``, negative pairs further than ``neg_margin``.

    ``[d - pos_margin]+`` over positive pairs plus ``[neg_margin - d]+`` over negative pairs, each reduced by
    itself, with the Euclidean distance d ("Revisiting Training Strategies", eq. 1; Hadsell et al. squared the
    distances). Equals pytorch-metric-learning's, but for a batch with one pair, where that one returns zero.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice; all pairs of the batch if None. A pair that occurs twice counts twice.
        pos_margin: No push below this distance; negative means never satisfied.
        neg_margin: No push above this distance.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the pairs become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> contrastive(x, torch.tensor([0, 0, 1]))  # positives sqrt(2) apart, one negative pair in one place
        tensor(2.4142)
    """
    vectors = checked(embeddings, labels)
    distances = euclidean(unit(vectors) if normalize else vectors)
    positive, negative = pair_counts(labels, tuples, dtype=distances.dtype)
    pull = hinge_sum(distances, positive, slope=1, offset=-pos_margin)
    push = hinge_sum(distances, negative, slope=-1, offset=neg_margin)
    return pull.reduced(reduction) + push.reduced(reduction)


@register(
    "contrastive",
    paper="Dimensionality Reduction by Learning an Invariant Mapping",
    year=2006,
    tuples="pairs",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"pos_margin": Float(-0.2, 1.0), "neg_margin": Float(0.0, 2.0)},
)
class Contrastive(EmbeddingLoss):
    """Pull positive pairs together, push negative pairs beyond a margin."""

    def __init__(
        self,
        *,
        pos_margin: float = 0.0,
        neg_margin: float = 1.0,
        normalize: bool = True,
        reduction: Reduction = "mean_nonzero",
    ) -> None:
        super().__init__(
            partial(
                contrastive,
                pos_margin=pos_margin,
                neg_margin=neg_margin,
                normalize=normalize,
                reduction=reduction,
            )
        )
