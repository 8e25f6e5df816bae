"""Generalized lifted structure loss."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.core.geometry import (
    MinedTuples,
    dot_products,
    euclidean,
    l2_normalize,
    pair_masks,
    select_batch_rows,
)
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, reduce
from levelfield.losses.npair import mean_square_norm


@register(
    "generalized_lifted",
    paper="In Defense of the Triplet Loss for Person Re-Identification",
    year=2017,
    tuples="pairs",
    embedding="raw",
    reported_by=("revisiting",),
    space={"margin": Float(0.0, 2.0), "l2": Float(1e-4, 0.1, log=True)},
)
class GeneralizedLifted(EmbeddingLoss):
    """Compare all positives of an anchor with all its negatives.

    ``[log sum_p exp(d_ap) + log sum_n exp(margin - d_an)]+`` over the anchors that have both, plus
    ``l2 * mean |x|^2``, with the Euclidean distance d of raw embeddings ("Revisiting Training
    Strategies", eq. 3, which sums over anchors). The positives exclude the anchor, as in Hermans et al.
    pytorch-metric-learning averages over all samples and also counts those without positives. The lifted
    structure loss of "Metric Learning: A Deep Dive" is this form on inner products of unit vectors:
    ``distance="cosine"`` with its margin and ``l2=0``.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> GeneralizedLifted(margin=3.0, l2=0.0)(x, y)
        tensor(1.)
    """

    margin: float = 1.0
    """Required distance of negatives."""
    l2: float = 0.005
    """Weight of the mean squared length of the embeddings; left out without an anchor."""
    normalize: bool = False
    """Scale the embeddings to unit length first."""
    distance: Literal["euclidean", "cosine"] = "euclidean"
    """Euclidean distance, or one minus the cosine."""
    reduction: HingeReduction = "mean"
    """Reduction over the anchors."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        if self.distance == "cosine":
            distances = 1 - dot_products(l2_normalize(vectors))
        else:
            distances = euclidean(l2_normalize(vectors) if self.normalize else vectors)
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        # Distances for the positives, margin - distances for the negatives.
        exponents = self.margin * negative + distances * (positive - negative)
        pull, push = log_sum_exps(exponents, positive, negative)
        losses = torch.relu(pull + push)
        complete = positive.amax(1) * negative.amax(1)
        length = mean_square_norm(select_batch_rows(vectors, tuples))
        return reduce(losses, complete, self.reduction) + self.l2 * complete.amax() * length
