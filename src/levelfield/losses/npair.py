"""N-pair loss."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from levelfield.core.errors import UsageError
from levelfield.core.geometry import (
    MinedTuples,
    dot_products,
    loss_of_products,
    pair_masks,
    select_batch_rows,
)
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import clamped_exp, log_sum_exp
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, TupleSum, reduce

Choice: TypeAlias = Literal["all", "class"]


@register(
    "npair",
    paper="Improved Deep Metric Learning with Multi-class N-pair Loss Objective",
    year=2016,
    tuples="pairs",
    embedding="raw",
    reported_by=("revisiting", "deep-dive"),
    space={"l2": Float(1e-4, 0.1, log=True)},
)
class NPair(EmbeddingLoss):
    """Compare each positive pair with many negatives at once, without normalization.

    ``log(1 + sum_n exp(x_a . x_n - x_a . x_p))`` over positive pairs, plus ``l2 * mean |x|^2``. ``pairs``
    "all" uses all positive pairs and all negatives of the batch ("Revisiting Training Strategies", eq. 4,
    which divides by the batch size). "class" uses the first two samples of each class; the negatives are the
    second samples of the other classes. That is Sohn's N-pair batch, and what pytorch-metric-learning
    computes without normalization and regularizer.

    Example:
        >>> NPair(l2=0.0)(torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1]))
        tensor(0.1269)
    """

    l2: float = 0.005
    """Weight of the mean squared length of the embeddings; left out without a pair."""
    pairs: Choice = "all"
    """Pairs to use: all pairs of the batch, or one pair per class."""
    reduction: Reduction = "mean"
    """Reduction over the positive pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        if self.pairs == "class":
            if tuples is not None:
                raise UsageError(
                    'npair with pairs="class" picks its own pairs; drop the miner or set pairs="all"'
                )
            loss, exists = _npair_loss_over_classes(vectors, labels, self.reduction)
        elif self.pairs == "all":
            loss, exists = npair_loss_over_all_pairs(vectors, labels, tuples, self.reduction)
        else:
            raise UsageError(f'npair has no pairs="{self.pairs}"; choose "all" or "class"')
        return loss + self.l2 * exists * mean_square_norm(select_batch_rows(vectors, tuples))


def npair_loss_over_all_pairs(
    vectors: Tensor, labels: Tensor, tuples: MinedTuples | None, reduction: Reduction
) -> tuple[Tensor, Tensor]:
    """Return the loss over all positive pairs of vectors (B x D), and one if there are any, else zero.

    Example:
        >>> npair_loss_over_all_pairs(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1]), None, "mean")
        (tensor(0.), tensor(0.))
    """
    if tuples is None:
        return _npair_loss_without_miner(vectors, labels, reduction)
    similarity = dot_products(vectors)
    positive, negative = pair_masks(labels, tuples, dtype=similarity.dtype)
    losses = softplus(log_sum_exp(similarity, negative)[:, None] - similarity)
    return reduce(losses, positive, reduction), positive.amax()


def _npair_loss_without_miner(vectors: Tensor, labels: Tensor, reduction: Reduction) -> tuple[Tensor, Tensor]:
    """Return the same from the labels alone: positive pairs as a list, because a batch has few of them."""
    row, column = (labels[:, None] == labels).nonzero(as_tuple=True)
    apart = row != column
    anchor, positive = row[apart], column[apart]
    number = vectors.new_tensor(float(len(anchor)))
    if not len(anchor):
        return vectors.sum() * 0, number

    def value_and_slope(products: Tensor) -> tuple[Tensor, Tensor]:
        near = products[anchor, positive]
        products[row, column] = -torch.inf
        top = products.amax(1, keepdim=True)
        top.masked_fill_(top == -torch.inf, 0.0)  # an anchor without negatives
        weights = clamped_exp(products.sub_(top))
        weights[row, column] = 0.0
        sums = weights.sum(1)
        violation = (sums.log() + top.squeeze(1))[anchor] - near
        share = violation.sigmoid()
        of_anchor = torch.zeros_like(sums).index_add_(0, anchor, share)
        slope = weights.mul_(torch.where(sums > 0, of_anchor / sums, 0.0)[:, None])
        slope[anchor, positive] = -share
        found = TupleSum(softplus(violation).sum(), number, number)
        return found.reduce(reduction), found._replace(total=slope).reduce(reduction)

    return loss_of_products(vectors, value_and_slope), number.clamp(max=1)


def _npair_loss_over_classes(vectors: Tensor, labels: Tensor, reduction: Reduction) -> tuple[Tensor, Tensor]:
    order = labels.argsort(stable=True)
    ranked = labels[order]
    starts = torch.ones_like(ranked, dtype=torch.bool)
    starts[1:] = ranked[1:] != ranked[:-1]
    first = (starts[:-1] & ~starts[1:]).nonzero().squeeze(1)
    anchors, positives = vectors[order[first]], vectors[order[first + 1]]
    with torch.autocast(vectors.device.type, enabled=False):
        similarity = anchors @ positives.T
    targets = torch.arange(len(first), device=labels.device)
    total = cross_entropy(similarity, targets, reduction="sum")
    number = total.new_tensor(len(first))
    return TupleSum(total, number, number).reduce(reduction), number.clamp(max=1)


def mean_square_norm(vectors: Tensor) -> Tensor:
    """Return the mean squared length of vectors (B x D).

    Example:
        >>> mean_square_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor(13.)
    """
    return vectors.square().sum() / max(len(vectors), 1)
