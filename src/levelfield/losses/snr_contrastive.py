"""Contrastive loss with the signal-to-noise distance."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, signal_to_noise, unit
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction, hinge_sum
from levelfield.miners import Tuples
from levelfield.miners._convert import pair_counts
from levelfield.space import Float


def snr_contrastive(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    pos_margin: float = 0.0,
    neg_margin: float = 1.0,
    regularizer_weight: float = 0.005,
    normalize: bool = True,
    reduction: Reduction = "mean_nonzero",
) -> Tensor:
    """The contrastive loss on ``d(x, y) = var(x - y) / var(x)``, plus a pull of embeddings to zero mean.

    As "A Metric Learning Reality Check" used it. Equals pytorch-metric-learning's with its
    ``ZeroMeanRegularizer``, in B x B instead of B x B x D memory; a batch with one pair is no exception here.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice; all pairs of the batch if None. A pair that occurs twice counts twice.
        pos_margin: No push below this distance.
        neg_margin: No push above this distance.
        regularizer_weight: Weight of :func:`zero_mean`; it is left out where there is no pair.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the pairs become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
        >>> snr_contrastive(x, torch.tensor([0, 0, 1]))  # positives at 4; a negative pair at 0
        tensor(5.)
    """
    vectors = checked(embeddings, labels)
    distances = signal_to_noise(unit(vectors) if normalize else vectors)
    positive, negative = pair_counts(labels, tuples, dtype=distances.dtype)
    pull = hinge_sum(distances, positive, slope=1, offset=-pos_margin)
    push = hinge_sum(distances, negative, slope=-1, offset=neg_margin)
    exists = (pull.counts + push.counts).clamp(max=1)
    loss = pull.reduced(reduction) + push.reduced(reduction)
    return loss + regularizer_weight * exists * zero_mean(vectors)


def zero_mean(vectors: Tensor) -> Tensor:
    """The mean over vectors (B x D) of the absolute sum of components: zero if each has mean zero.

    Example:
        >>> import torch
        >>> zero_mean(torch.tensor([[1.0, -1.0], [-2.0, -2.0]]))
        tensor(2.)
    """
    return vectors.sum(1).abs().sum() / max(len(vectors), 1)


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
    """Contrastive loss on the ratio of the variances of difference and anchor."""

    def __init__(
        self,
        *,
        pos_margin: float = 0.0,
        neg_margin: float = 1.0,
        regularizer_weight: float = 0.005,
        normalize: bool = True,
        reduction: Reduction = "mean_nonzero",
    ) -> None:
        super().__init__(
            partial(
                snr_contrastive,
                pos_margin=pos_margin,
                neg_margin=neg_margin,
                regularizer_weight=regularizer_weight,
                normalize=normalize,
                reduction=reduction,
            )
        )
