"""S2SD: distill the similarities of wider embeddings, trained beside the main one, into it.

"Simultaneous Similarity-based Self-Distillation for Deep Metric Learning" (2021). It works with any loss on
unit embeddings. Each branch has its own copy of the loss for its width, and its own mining. The branches are
used in training only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.core.seeds import torch_generator
from levelfield.losses import mlp

ComputeLoss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Returns a loss (scalar) of embeddings (B x D) with labels (B), on mined tuples if the method mines."""


@dataclass(frozen=True, kw_only=True)
class S2SDOptions:
    """Options ``s2sd.NAME`` of a method.

    Attributes:
        weight: Weight of the divergence from the branches; setting it turns S2SD on.
        branches: Number of branches.
        width: Width of the first branch; branch n is n times as wide.
        temperature: Divisor of the similarities.
        feature_weight: Weight of the divergence from the pooled features; 0 turns it off.
        feature_start: Last step without the divergence from the features.
    """

    weight: float = 50.0
    branches: int = 4
    width: int = 512
    temperature: float = 1.0
    feature_weight: float = 50.0
    feature_start: int = 1000


class S2SDBranches(nn.Module):
    """Branches with wider embeddings, and their losses.

    Args:
        options: Options of S2SD.
        feature_size: Size F of the pooled features.
        make_loss: Creates the method's loss for embeddings of a given width.
        seed: Seed of the branches' initial weights.

    Attributes:
        networks: Networks from features to wider embeddings, two layers each, as in the paper.
        losses: Loss of each network.
    """

    def __init__(
        self, options: S2SDOptions, *, feature_size: int, make_loss: Callable[[int], nn.Module], seed: int
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
        compute_loss: ComputeLoss,
    ) -> Tensor:
        """Return the objective for ``value``, the loss of ``embeddings`` (B x D).

        It is ``(value + mean loss of the branches) / 2 + weight * mean divergence from the branches``, plus
        the divergence from the features (B x F) after step ``feature_start``. The divergences give no
        gradient to the branches and the features.
        """
        options = self.options
        wider = [F.normalize(network(features)) for network in self.networks]
        targets = [compute_loss(loss, wide, labels) for loss, wide in zip(self.losses, wider, strict=True)]
        gaps = [divergence(embeddings, wide, temperature=options.temperature) for wide in wider]
        value = (value + torch.stack(targets).mean()) / 2 + options.weight * torch.stack(gaps).mean()
        if options.feature_weight and step > options.feature_start:
            gap = divergence(embeddings, features, temperature=options.temperature)
            value = value + options.feature_weight * gap
        return value


def divergence(embeddings: Tensor, teacher: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Return the divergence of the similarities of embeddings (B x D) from those of a teacher (B x E).

    It is the Kullback-Leibler divergence of the softmax of each sample's cosines to all samples, averaged
    over samples, times the squared temperature. The teacher gets no gradient.

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
