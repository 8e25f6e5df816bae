"""Contrastive loss."""

from __future__ import annotations

from torch import Tensor

from levelfield.geometry import Tuples, loss_of_distances, pair_counts
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, hinges
from levelfield.space import Float


@register(
    "contrastive",
    paper="Dimensionality Reduction by Learning an Invariant Mapping",
    year=2006,
    tuples="pairs",
    reported_by=("reality-check", "revisiting", "deep-dive", "landmarks"),
    space={"pos_margin": Float(-0.2, 1.0), "neg_margin": Float(0.0, 2.0)},
)
class Contrastive(EmbeddingLoss):
    """Pull positive pairs together, push negative pairs beyond a margin.

    ``[d - pos_margin]+`` over positive pairs plus ``[neg_margin - d]+`` over negative pairs, each reduced by
    itself, with the Euclidean distance d ("Revisiting Training Strategies", eq. 1; Hadsell et al. squared the
    distances). Equals pytorch-metric-learning's, but for a batch with one pair, where that one returns zero.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> Contrastive()(x, torch.tensor([0, 0, 1]))  # positives sqrt(2) apart, a negative pair in one place
        tensor(2.4142)
    """

    pos_margin: float = 0.0
    """No push below this distance; negative means never satisfied."""
    neg_margin: float = 1.0
    """No push above this distance."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """How the losses of the pairs become one number."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        positive, negative = pair_counts(labels, tuples, dtype=vectors.dtype)

        def value_and_slope(distances: Tensor) -> tuple[Tensor, Tensor]:
            pull, push = (positive, 1, -self.pos_margin), (negative, -1, self.neg_margin)
            return hinges(distances, pull, push, reduction=self.reduction)

        return loss_of_distances(vectors, value_and_slope, normalize=self.normalize)
