"""Manifold mixup for metric learning.

Features inside the network are blended with those of other samples of the batch, and the loss is blended
likewise ("Manifold Mixup", 2019; for metric learning: section F of the supplement of "Revisiting Training
Strategies and Generalization Performance in Deep Metric Learning", which finds that it compresses the
embedding and costs accuracy).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.seeds import beta, circle


@dataclass(frozen=True)
class Mixture:
    """A batch in which each sample is a blend of two.

    Attributes:
        features: weight * own + (1 - weight) * partner's, shape as before.
        labels: The classes of the samples themselves, (B,).
        partner_labels: The classes of what was mixed in, (B,).
        weight: The share of the samples themselves, lambda; one for the whole batch.
    """

    features: Tensor
    labels: Tensor
    partner_labels: Tensor
    weight: float

    def loss(self, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
        """Blend the losses under both label entries: weight * first + (1 - weight) * second.

        For a classification loss this is cross entropy against the blended target. For a tuple loss it is
        equation 30: under each of its label entries a mixed sample forms its own tuples, weighed by the share
        of that entry. Where two samples of one class were mixed the entries agree, and the shares add to 1.

        Args:
            loss_of: The loss of the embedded mixture under given labels (B), a scalar; with a miner, mine
                inside.

        Example:
            >>> mixed = Mixture(torch.zeros(2, 1), torch.tensor([0, 1]), torch.tensor([1, 0]), 0.75)
            >>> mixed.loss(lambda labels: labels[0].float()).item()
            0.25
        """
        return self.weight * loss_of(self.labels) + (1 - self.weight) * loss_of(self.partner_labels)


def mix(features: Tensor, labels: Tensor, *, alpha: float = 2.0, generator: torch.Generator) -> Mixture:
    """Blend each sample of a batch with a random other one; every sample is mixed in once.

    Use it on the images, on a hidden layer or on the pooled features (the step that works with any trunk)::

        mixed = mix(embedder.features(images), labels, generator=generator)
        embeddings = embedder.project(mixed.features)
        value = mixed.loss(lambda labels: loss(embeddings, labels, miner(embeddings, labels)))

    Args:
        features: B x anything.
        labels: (B,).
        alpha: The weight is drawn from Beta(alpha, alpha), once per batch; 2 in both papers.
        generator: Of the partners and of the weight; on the CPU.

    Example:
        >>> mixed = mix(torch.eye(2), torch.tensor([0, 1]), generator=torch.Generator().manual_seed(0))
        >>> mixed.features.sum(dim=1).tolist()
        [1.0, 1.0]
    """
    if not alpha > 0:
        raise UsageError(f"mixup: alpha must be above 0, got {alpha}")
    partner = circle(len(labels), generator=generator).to(labels.device)
    weight = beta(alpha, alpha, generator=generator)
    blend = weight * features + (1 - weight) * features[partner.to(features.device)]
    return Mixture(blend, labels, labels[partner], weight)
