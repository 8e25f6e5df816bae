"""Triplet loss with the signal-to-noise distance."""

from __future__ import annotations

from torch import Tensor

from levelfield.core.geometry import (
    MinedTuples,
    any_triplet,
    l2_normalize,
    select_batch_rows,
    signal_to_noise,
)
from levelfield.core.space import Float
from levelfield.losses import register
from levelfield.losses._module import EmbeddingLoss
from levelfield.losses._reduction import HingeReduction
from levelfield.losses.snr_contrastive import zero_mean
from levelfield.losses.triplet import triplet_loss_from_distances


@register(
    "snr_triplet",
    paper="Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning",
    year=2019,
    tuples="triplets",
    reported_by=("revisiting",),
    space={"margin": Float(0.0, 1.0), "regularizer_weight": Float(0.0, 1.0)},
)
class SNRTriplet(EmbeddingLoss):
    """Triplet loss on the signal-to-noise distance.

    The triplet loss on ``d(x, y) = var(x - y) / var(x)``, plus a pull of the embeddings to zero mean
    ("Revisiting Training Strategies", eq. 15; the printed formula lacks the squares of the differences).

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
        >>> SNRTriplet(reduction='mean')(x, torch.tensor([0, 0, 1]))  # violated by 4.2 and by 0.2
        tensor(2.2000)
    """

    margin: float = 0.2
    """Required difference between the distances to the negative and to the positive."""
    regularizer_weight: float = 0.005
    """Weight of :func:`~levelfield.losses.snr_contrastive.zero_mean`; left out without a triplet."""
    normalize: bool = True
    """Scale the embeddings to unit length first."""
    reduction: HingeReduction = "mean_nonzero"
    """Reduction over the triplets."""

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss by the formula above."""
        distances = signal_to_noise(l2_normalize(vectors) if self.normalize else vectors)
        loss = triplet_loss_from_distances(
            distances, labels, tuples, margin=self.margin, smooth=False, reduction=self.reduction
        )
        balance = zero_mean(select_batch_rows(vectors, tuples))
        return loss + self.regularizer_weight * any_triplet(labels, tuples) * balance
