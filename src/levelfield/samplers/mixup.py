"""Manifold mixup for metric learning.

Features of a hidden layer are blended with those of other samples of the batch, and the loss is blended in
the same way ("Manifold Mixup", 2019). For metric learning see section F of the supplement of "Revisiting
Training Strategies and Generalization Performance in Deep Metric Learning", which finds that mixup
compresses the embedding and lowers accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.seeds import random_derangement, sample_beta


@dataclass(frozen=True)
class MixedBatch:
    """Batch in which each sample is a blend of two samples.

    Attributes:
        features: ``weight * own + (1 - weight) * partner``, in the shape of the input.
        labels: Class of each sample, (B,).
        partner_labels: Class of the partner of each sample, (B,).
        weight: Weight of the samples against their partners, lambda; the same for the whole batch.
    """

    features: Tensor
    labels: Tensor
    partner_labels: Tensor
    weight: float

    def loss(self, compute_loss: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the weighted mean of the losses with both kinds of labels.

        The result is ``weight * loss(labels) + (1 - weight) * loss(partner_labels)``. For a classification
        loss this is cross entropy with the blended target. For a tuple loss it is equation 30 of the paper:
        tuples are formed once by the labels and once by the partner labels.

        Args:
            compute_loss: Function from labels (B) to the loss of the mixed embeddings, a scalar. Call the
                miner inside this function.

        Example:
            >>> mixed = MixedBatch(torch.zeros(2, 1), torch.tensor([0, 1]), torch.tensor([1, 0]), 0.75)
            >>> mixed.loss(lambda labels: labels[0].float()).item()
            0.25
        """
        own, partner = compute_loss(self.labels), compute_loss(self.partner_labels)
        return self.weight * own + (1 - self.weight) * partner


def mix_batch(
    features: Tensor, labels: Tensor, *, alpha: float = 2.0, generator: torch.Generator
) -> MixedBatch:
    """Blend each sample of a batch with a random other sample; every sample is a partner once.

    Apply it to the images, to a hidden layer or to the pooled features, which works with every trunk::

        mixed = mix_batch(embedder.features(images), labels, generator=generator)
        embeddings = embedder.project(mixed.features)
        value = mixed.loss(lambda labels: loss(embeddings, labels, miner(embeddings, labels)))

    Args:
        features: B x anything.
        labels: (B,).
        alpha: The weight is drawn from Beta(alpha, alpha), once per batch; 2 in both papers.
        generator: CPU generator for the partners and the weight.

    Example:
        >>> mixed = mix_batch(torch.eye(2), torch.tensor([0, 1]), generator=torch.Generator().manual_seed(0))
        >>> mixed.features.sum(dim=1).tolist()
        [1.0, 1.0]
    """
    partner, weight = draw_mixing(len(labels), alpha=alpha, generator=generator)
    blend = weight * features + (1 - weight) * features[partner.to(features.device)]
    return MixedBatch(blend, labels, labels[partner.to(labels.device)], weight)


def draw_mixing(count: int, *, alpha: float, generator: torch.Generator) -> tuple[Tensor, float]:
    """Return the partner of each of ``count`` samples, (count,) on the CPU, and the weight of the samples.

    Example:
        >>> draw_mixing(2, alpha=2.0, generator=torch.Generator())[0]
        tensor([1, 0])
    """
    if not alpha > 0:
        raise UsageError(f"mixup: alpha must be above 0, got {alpha}")
    partner = random_derangement(count, generator=generator)
    return partner, sample_beta(alpha, alpha, generator=generator)
