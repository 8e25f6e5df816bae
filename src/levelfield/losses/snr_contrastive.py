"""Contrastive loss with the signal-to-noise distance."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import (
    MinedTuples,
    l2_normalize,
    pair_counts,
    select_batch_rows,
    signal_to_noise,
)
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, hinge_sum


@register(
    "snr_contrastive",
    paper="Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning",
    year=2019,
    tuples="pairs",
    reported_by=("reality-check", "landmarks"),
    space={
        "pos_margin": Float(0.0, 1.0),
        "neg_margin": Float(0.0, 2.0),
        "regularizer_weight": Float(0.0, 1.0),
    },
)
class SNRContrastive(EmbeddingLoss):
    """Contrastive loss on the signal-to-noise distance.

    The contrastive loss on ``d(x, y) = var(x - y) / var(x)`` plus ``regularizer_weight`` times
    :func:`zero_mean`, as "A Metric Learning Reality Check" used it. Equals pytorch-metric-learning's with its
    ``ZeroMeanRegularizer``, in B x B instead of B x B x D memory, except that that one returns zero for one
    pair.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
        >>> SNRContrastive()(x, torch.tensor([0, 0, 1]))  # positives at 4; a negative pair at 0
        tensor(5.)
    """

    pos_margin: float = 0.0
    """Positive pairs closer than this have no loss."""
    neg_margin: float = 1.0
    """Negative pairs farther than this have no loss."""
    regularizer_weight: float = 0.005
    """Weight of :func:`zero_mean`; left out without a pair."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """Reduction over the pairs."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        distances = signal_to_noise(l2_normalize(vectors) if self.normalize else vectors)
        positive, negative = pair_counts(labels, tuples, dtype=distances.dtype)
        pull = hinge_sum(distances, positive, slope=1, offset=-self.pos_margin)
        push = hinge_sum(distances, negative, slope=-1, offset=self.neg_margin)
        exists = (pull.counts + push.counts).clamp(max=1)
        loss = pull.reduce(self.reduction) + push.reduce(self.reduction)
        return loss + self.regularizer_weight * exists * zero_mean(select_batch_rows(vectors, tuples))


def zero_mean(vectors: Tensor) -> Tensor:
    """Return the mean absolute sum of the components of vectors (B x D); zero if each has mean zero.

    Example:
        >>> import torch
        >>> zero_mean(torch.tensor([[1.0, -1.0], [-2.0, -2.0]]))
        tensor(2.)
    """
    return vectors.sum(1).abs().sum() / max(len(vectors), 1)
