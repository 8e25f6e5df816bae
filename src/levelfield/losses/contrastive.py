"""Contrastive loss."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.geometry import (
    MinedTuples,
    Pairs,
    as_pairs,
    l2_normalize,
    loss_of_cosines,
    loss_of_distances,
    pair_counts,
    row_distances,
)
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, hinge_loss_and_gradient, reduce

FEW = 32
"""Listed pairs are compared one by one if all pairs of the batch are more than this many times as many."""


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

    ``[d - pos_margin]+`` over positive pairs plus ``[neg_margin - d]+`` over negative pairs, each reduced on
    its own, with the Euclidean distance d ("Revisiting Training Strategies", eq. 1; Hadsell et al. squared
    the distances). "Metric Learning: A Deep Dive" defines it on inner products s of unit vectors, ``-s`` and
    ``[s - margin]+``: that is ``distance="cosine"`` with ``neg_margin`` 1 - margin, up to a constant. Equals
    pytorch-metric-learning's, except for a batch with one pair, where that one returns zero.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
        >>> Contrastive()(x, torch.tensor([0, 0, 1]))  # positives sqrt(2) apart, an equal negative pair
        tensor(2.4142)
    """

    pos_margin: float = 0.0
    """Positive pairs closer than this have no loss; a negative value means that all have one."""
    neg_margin: float = 1.0
    """Negative pairs farther than this have no loss."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    distance: Literal["euclidean", "cosine"] = "euclidean"
    """Euclidean distance, or one minus the cosine."""
    reduction: HingeReduction = "mean_nonzero"
    """Reduction over the pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        if tuples is not None and self.distance == "euclidean":
            pairs = as_pairs(tuples)
            if FEW * (len(pairs.positive) + len(pairs.negative)) < len(labels) ** 2:
                return self._of_few_pairs(l2_normalize(vectors) if self.normalize else vectors, pairs)
        positive, negative = pair_counts(labels, tuples, dtype=vectors.dtype)

        def value_and_slope(distances: Tensor) -> tuple[Tensor, Tensor]:
            pull, push = (positive, 1, -self.pos_margin), (negative, -1, self.neg_margin)
            return hinge_loss_and_gradient(distances, pull, push, reduction=self.reduction)

        def value_and_slope_of_cosines(cosines: Tensor) -> tuple[Tensor, Tensor]:
            pull, push = (positive, -1, 1 - self.pos_margin), (negative, 1, self.neg_margin - 1)
            return hinge_loss_and_gradient(cosines, pull, push, reduction=self.reduction)

        if self.distance == "cosine":
            return loss_of_cosines(vectors, value_and_slope_of_cosines)
        return loss_of_distances(vectors, value_and_slope, normalize=self.normalize)

    def _of_few_pairs(self, vectors: Tensor, pairs: Pairs) -> Tensor:
        """Return the loss of listed pairs, without the distances of all others."""
        pull = row_distances(vectors[pairs.pos_anchor], vectors[pairs.positive]) - self.pos_margin
        push = self.neg_margin - row_distances(vectors[pairs.neg_anchor], vectors[pairs.negative])
        return sum(
            (reduce(losses.relu(), torch.ones_like(losses), self.reduction) for losses in (pull, push)),
            start=vectors.sum() * 0,
        )
