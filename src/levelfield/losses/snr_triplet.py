"""Triplet loss with the signal-to-noise distance."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from levelfield.losses import register
from levelfield.losses._distances import checked, signal_to_noise, unit
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import Reduction
from levelfield.losses.snr_contrastive import zero_mean
from levelfield.losses.triplet import triplet_of_distances
from levelfield.miners import Tuples
from levelfield.miners._convert import any_triplet
from levelfield.space import Float


def snr_triplet(
    embeddings: Tensor,
    labels: Tensor,
    tuples: Tuples | None = None,
    *,
    margin: float = 0.2,
    regularizer_weight: float = 0.005,
    normalize: bool = True,
    reduction: Reduction = "mean_nonzero",
) -> Tensor:
    """The triplet loss on ``d(x, y) = var(x - y) / var(x)``, plus a pull of embeddings to zero mean.

    "Revisiting Training Strategies", eq. 15; the printed formula lost the squares of the differences.

    Args:
        embeddings: B x D.
        labels: B.
        tuples: A miner's choice; all triplets of the batch if None. Pairs stand for every triplet whose
            positive and negative pair share the anchor.
        margin: By how much the negative must be further away.
        regularizer_weight: Weight of the mean absolute sum of an embedding's components; it is left out
            where there is no triplet.
        normalize: Scale the embeddings to unit length first.
        reduction: How the losses of the triplets become one number.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
        >>> snr_triplet(x, torch.tensor([0, 0, 1]), reduction="mean")  # violated by 4.2 and by 0.2
        tensor(2.2000)
    """
    vectors = checked(embeddings, labels)
    distances = signal_to_noise(unit(vectors) if normalize else vectors)
    loss = triplet_of_distances(distances, labels, tuples, margin=margin, smooth=False, reduction=reduction)
    return loss + regularizer_weight * any_triplet(labels, tuples) * zero_mean(vectors)


@register(
    "snr_triplet",
    paper="Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning",
    year=2019,
    tuples="triplets",
    reported_by=("revisiting",),
    space={"margin": Float(0.0, 1.0), "regularizer_weight": Float(0.0, 1.0)},
)
class SNRTriplet(EmbeddingLoss):
    """Triplet loss on the ratio of the variances of difference and anchor."""

    def __init__(
        self,
        *,
        margin: float = 0.2,
        regularizer_weight: float = 0.005,
        normalize: bool = True,
        reduction: Reduction = "mean_nonzero",
    ) -> None:
        super().__init__(
            partial(
                snr_triplet,
                margin=margin,
                regularizer_weight=regularizer_weight,
                normalize=normalize,
                reduction=reduction,
            )
        )
