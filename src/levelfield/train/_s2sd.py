"""S2SD: wider embeddings, trained beside the one that counts, teach it their similarities.

"Simultaneous Similarity-based Self-Distillation for Deep Metric Learning" (2021). It goes with any loss on
unit embeddings: each branch has a copy of the loss for its own width, with weights of its own, and mines
for itself. The branches serve training only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.losses import mlp
from levelfield.seeds import torch_generator

LossOf = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""The loss, a scalar, of embeddings (B x D) with labels (B), mined if the method mines."""


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """The options, ``s2sd.NAME`` of a method.

    Attributes:
        weight: Of the divergence from the branches; turns S2SD on.
        branches: How many there are.
        width: Of the first branch; the second is twice as wide, and so on.
        temperature: Divides the similarities.
        feature_weight: Of the divergence from the pooled features themselves; 0 leaves it out.
        feature_start: The first step in which the features count.
    """

    weight: float = 50.0
    branches: int = 4
    width: int = 512
    temperature: float = 1.0
    feature_weight: float = 50.0
    feature_start: int = 1000


class Branches(nn.Module):
    """The wider embeddings of a run, with their losses.

    Args:
        options: See :class:`Distillation`.
        feature_size: F, of the pooled features.
        make_loss: The method's loss for embeddings of a given width.
        seed: Of the branches' starting weights.

    Attributes:
        networks: From features to wider embeddings: two layers each, as in the paper.
        losses: One for each of them.
    """

    def __init__(
        self, options: Distillation, *, feature_size: int, make_loss: Callable[[int], nn.Module], seed: int
    ) -> None:
        super().__init__()
        self.options = options
        widths = [options.width * (number + 1) for number in range(options.branches)]
        random = torch_generator("s2sd", seed)
        self.networks = nn.ModuleList(mlp([feature_size, width, width], generator=random) for width in widths)
        self.losses = nn.ModuleList(make_loss(width) for width in widths)

    def forward(
        self,
        value: Tensor,
        embeddings: Tensor,
        features: Tensor,
        labels: Tensor,
        *,
        step: int,
        loss_of: LossOf,
    ) -> Tensor:
        """What to minimise instead of ``value``, the loss of ``embeddings`` (B x D).

        ``(value + mean loss of the branches) / 2 + weight * mean divergence from the branches``, and the
        divergence from the features (B x F) from step ``feature_start`` on. No gradient passes from the
        divergences into the branches or the features.
        """
        options = self.options
        wider = [F.normalize(network(features)) for network in self.networks]
        targets = [loss_of(loss, wide, labels) for loss, wide in zip(self.losses, wider, strict=True)]
        gaps = [divergence(embeddings, wide, temperature=options.temperature) for wide in wider]
        value = (value + torch.stack(targets).mean()) / 2 + options.weight * torch.stack(gaps).mean()
        if options.feature_weight and step > options.feature_start:
            gap = divergence(embeddings, features, temperature=options.temperature)
            value = value + options.feature_weight * gap
        return value


def divergence(embeddings: Tensor, teacher: Tensor, *, temperature: float = 1.0) -> Tensor:
    """How far the similarities of embeddings (B x D) are from a teacher's (B x E), which gets no gradient.

    The Kullback-Leibler divergence of the softmax of each sample's cosines to all samples, averaged over
    samples, times the squared temperature.

    Example:
        >>> divergence(torch.eye(2), torch.eye(2)), divergence(torch.eye(2), torch.ones(2, 2))
        (tensor(0.), tensor(0.1201))
    """
    with torch.autocast(embeddings.device.type, enabled=False):
        own = F.normalize(embeddings.float() if embeddings.dtype != torch.float64 else embeddings)
        other = F.normalize(teacher.detach().to(own.dtype))
        student = (own @ own.T / temperature).log_softmax(dim=1)
        wanted = (other @ other.T / temperature).log_softmax(dim=1)
    gap: Tensor = F.kl_div(student, wanted, reduction="sum", log_target=True)
    return gap * temperature**2 / max(len(own), 1)
