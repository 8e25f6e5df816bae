"""Angular loss, together with the N-pair loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from levelfield.geometry import Tuples, of_batch, pair_masks, parts, products, unit, with_gradient
from levelfield.losses import register
from levelfield.losses._logsumexp import softmax_weights
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, Sum
from levelfield.losses.npair import mean_square_norm, npair_of_all
from levelfield.space import Float


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
    """Bound the angle under which a negative sees a positive pair; with the N-pair loss.

    ``log(1 + sum_n exp(4 tan^2(alpha) (x_a + x_p) . x_n - 2 (1 + tan^2(alpha)) x_a . x_p))`` over positive
    pairs of normalised embeddings, ``angular_weight`` times, plus the N-pair loss of the embeddings as they
    come, ``npair_weight`` times, plus ``l2 * mean |x|^2`` (Wang et al.; "Revisiting Training Strategies",
    eq. 5, is garbled and is read after them). The angular part alone (weights 0 and 1, l2 0) equals
    pytorch-metric-learning's for normalised embeddings; that one does not normalise the negatives.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> Angular(npair_weight=0.0, angular_weight=1.0, l2=0.0)(x, y)  # log(1 + exp(-8 - 4))
        tensor(6.1442e-06)
    """

    alpha: float = 45.0
    """The largest angle, in degrees."""
    npair_weight: float = 1.0
    """Weight of the N-pair part."""
    angular_weight: float = 2.0
    """Weight of the angular part (lambda in the papers)."""
    l2: float = 0.005
    """Weight of the mean squared length of the embeddings; it is left out where there is no pair."""
    reduction: Reduction = "mean"
    """How the losses of the positive pairs become one number."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        part = angular_sum(products(unit(vectors)), positive, negative, alpha=self.alpha)
        loss = self.angular_weight * part.reduced(self.reduction)
        if self.npair_weight:
            loss = loss + self.npair_weight * npair_of_all(vectors, labels, tuples, self.reduction)[0]
        return loss + self.l2 * positive.amax() * mean_square_norm(of_batch(vectors, tuples))


def angular_sum(cosine: Tensor, positive: Tensor, negative: Tensor, *, alpha: float) -> Sum:
    """The sum of the angular part over positive pairs, as many at a time as memory allows.

    Args:
        cosine: B x B.
        positive: B x B mask of (anchor, positive).
        negative: B x B mask of (anchor, negative).
        alpha: The largest angle, in degrees.

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
        for part in parts(len(row), len(cosine)):
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
    return Sum(with_gradient(total, cosine, gradient), number, number)
