"""Contrastive loss with the signal-to-noise distance."""

from __future__ import annotations

from torch import Tensor

from levelfield.geometry import Tuples, of_batch, pair_counts, signal_to_noise, unit
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction, hinge_sum
from levelfield.space import Float


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
    """Contrastive loss on the ratio of the variances of difference and anchor.

    The contrastive loss on ``d(x, y) = var(x - y) / var(x)`` plus ``regularizer_weight`` times
    :func:`zero_mean`, as "A Metric Learning Reality Check" used it. Equals pytorch-metric-learning's with its
    ``ZeroMeanRegularizer``, in B x B instead of B x B x D memory; a batch with one pair is no exception here.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
        >>> SNRContrastive()(x, torch.tensor([0, 0, 1]))  # positives at 4; a negative pair at 0
        tensor(5.)
    """

    pos_margin: float = 0.0
    """No push below this distance."""
    neg_margin: float = 1.0
    """No push above this distance."""
    regularizer_weight: float = 0.005
    """Weight of :func:`zero_mean`; it is left out where there is no pair."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """How the losses of the pairs become one number."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula above."""
        distances = signal_to_noise(unit(vectors) if self.normalize else vectors)
        positive, negative = pair_counts(labels, tuples, dtype=distances.dtype)
        pull = hinge_sum(distances, positive, slope=1, offset=-self.pos_margin)
        push = hinge_sum(distances, negative, slope=-1, offset=self.neg_margin)
        exists = (pull.counts + push.counts).clamp(max=1)
        loss = pull.reduced(self.reduction) + push.reduced(self.reduction)
        return loss + self.regularizer_weight * exists * zero_mean(of_batch(vectors, tuples))


def zero_mean(vectors: Tensor) -> Tensor:
    """The mean over vectors (B x D) of the absolute sum of components: zero if each has mean zero.

    Example:
        >>> import torch
        >>> zero_mean(torch.tensor([[1.0, -1.0], [-2.0, -2.0]]))
        tensor(2.)
    """
    return vectors.sum(1).abs().sum() / max(len(vectors), 1)
