"""Angular loss, together with the N-pair loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.core.geometry import (
    MinedTuples,
    attach_gradient,
    dot_products,
    iterate_chunks,
    l2_normalize,
    pair_masks,
    select_batch_rows,
)
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import softmax_weights
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, TupleSum
from levelfield.losses.npair import mean_square_norm, npair_loss_over_all_pairs


@register(
    "angular",
    paper="Deep Metric Learning with Angular Loss",
    year=2017,
    tuples="pairs",
    embedding="raw",
    reported_by=("revisiting",),
    space={
        "alpha": Float(20.0, 60.0),
        "angular_weight": Float(0.1, 10.0, log=True),
        "l2": Float(1e-4, 0.1, log=True),
    },
)
class Angular(EmbeddingLoss):
    """Bound the angle at a negative that faces a positive pair; with the N-pair loss.

    ``log(1 + sum_n exp(4 tan^2(alpha) (x_a + x_p) . x_n - 2 (1 + tan^2(alpha)) x_a . x_p))`` over positive
    pairs of normalized embeddings, times ``angular_weight``; plus the N-pair loss of the raw embeddings,
    times ``npair_weight``; plus ``l2 * mean |x|^2``. This follows Wang et al.; eq. 5 of "Revisiting Training
    Strategies" has misprints. The angular part alone (weights 0 and 1, l2 0) equals pytorch-metric-learning's
    for normalized embeddings; that one does not normalize the negatives.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> Angular(npair_weight=0.0, angular_weight=1.0, l2=0.0)(x, y)  # log(1 + exp(-8 - 4))
        tensor(6.1442e-06)
    """

    alpha: float = 45.0
    """Largest angle, in degrees."""
    npair_weight: float = 1.0
    """Weight of the N-pair part."""
    angular_weight: float = 2.0
    """Weight of the angular part (lambda in the papers)."""
    l2: float = 0.005
    """Weight of the mean squared length of the embeddings; left out without a pair."""
    reduction: Reduction = "mean"
    """Reduction over the positive pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        part = angular_sum(dot_products(l2_normalize(vectors)), positive, negative, alpha=self.alpha)
        loss = self.angular_weight * part.reduce(self.reduction)
        if self.npair_weight:
            loss = (
                loss
                + self.npair_weight * npair_loss_over_all_pairs(vectors, labels, tuples, self.reduction)[0]
            )
        return loss + self.l2 * positive.amax() * mean_square_norm(select_batch_rows(vectors, tuples))


def angular_sum(cosine: Tensor, positive: Tensor, negative: Tensor, *, alpha: float) -> TupleSum:
    """Return the sum of the angular part over positive pairs, in chunks that fit into memory.

    Args:
        cosine: B x B.
        positive: B x B mask of (anchor, positive).
        negative: B x B mask of (anchor, negative).
        alpha: Largest angle, in degrees.

    Example:
        >>> cosine, none = torch.ones(2, 2), torch.zeros(2, 2)
        >>> angular_sum(cosine, none, none, alpha=45.0).total
        tensor(0.)
    """
    slope = math.tan(math.radians(alpha)) ** 2
    with torch.no_grad():
        row, column = positive.nonzero(as_tuple=True)
        gradient = torch.zeros_like(cosine)
        total = cosine.new_zeros(())
        for part in iterate_chunks(len(row), len(cosine)):
            anchor, other = row[part], column[part]
            inside = 4 * slope * (cosine[anchor] + cosine[other])
            inside -= 2 * (1 + slope) * cosine[anchor, other][:, None]
            losses, weights = softmax_weights(inside, negative[anchor], plus_one=True)
            total += losses.sum()
            pull = weights.sum(1)
            weights *= 4 * slope
            gradient.index_add_(0, anchor, weights).index_add_(0, other, weights)
            gradient[anchor, other] -= 2 * (1 + slope) * pull
    number = positive.sum()
    return TupleSum(attach_gradient(total, cosine, gradient), number, number)
