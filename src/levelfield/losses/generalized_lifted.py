"""Generalised lifted structure loss."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.geometry import Tuples, euclidean, of_batch, pair_masks, unit
from levelfield.losses import register
from levelfield.losses._logsumexp import log_sum_exps
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, reduce
from levelfield.losses.npair import mean_square_norm
from levelfield.space import Float


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
    """Weigh all positives of an anchor against all its negatives.

    ``[log sum_p exp(d_ap) + log sum_n exp(margin - d_an)]+`` over the anchors that have both, plus
    ``l2 * mean |x|^2``, with the Euclidean distance d of embeddings as they come ("Revisiting Training
    Strategies", eq. 3, which sums over anchors; the positives of Hermans et al. exclude the anchor, and so do
    these). pytorch-metric-learning averages over all samples and also counts those without positives. What
    "Metric Learning: A Deep Dive" prints as lifted structure is this form, on similarities.

    Example:
        >>> x, y = torch.tensor([[1.0], [1.0], [-1.0]]), torch.tensor([0, 0, 1])
        >>> GeneralizedLifted(margin=3.0, l2=0.0)(x, y)
        tensor(1.)
    """

    margin: float = 1.0
    """The distance that negatives should keep."""
    l2: float = 0.005
    """Weight of the mean squared length of the embeddings; it is left out where there is no anchor."""
    normalize: bool = False
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean"
    """How the losses of the anchors become one number."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        distances = euclidean(unit(vectors) if self.normalize else vectors)
        positive, negative = pair_masks(labels, tuples, dtype=vectors.dtype)
        # Distances for the positives, margin - distances for the negatives.
        exponents = self.margin * negative + distances * (positive - negative)
        pull, push = log_sum_exps(exponents, positive, negative)
        losses = torch.relu(pull + push)
        complete = positive.amax(1) * negative.amax(1)
        length = mean_square_norm(of_batch(vectors, tuples))
        return reduce(losses, complete, self.reduction) + self.l2 * complete.amax() * length
