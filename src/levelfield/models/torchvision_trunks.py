"""torchvision trunks, without their pooling and classifier."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import nn
from torchvision import models as library

from levelfield.models import register
from levelfield.models._download import download_state
from levelfield.models._trunk import IMAGENET_INPUT, InputRecipe, StateDict, Trunk

# Layers after the feature maps, and the auxiliary classifiers of GoogLeNet.
_AFTER_THE_MAPS = ("avgpool", "dropout", "fc", "aux1", "aux2")


@register(
    "resnet50",
    paper="Deep Residual Learning for Image Recognition",
    year=2016,
    image_size=224,
    pretrained=True,
)
def resnet50(*, in_channels: int = 3) -> Trunk:
    """ResNet-50 of torchvision: 2,048 features; weights: imagenet is IMAGENET1K_V1, as in the papers.

    Example:
        >>> resnet50().num_features
        2048
    """
    network = library.resnet50()
    if in_channels != 3:
        network.conv1 = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
    return Trunk(
        _maps(network),
        name="resnet50",
        num_features=2048,
        inputs=IMAGENET_INPUT if in_channels == 3 else InputRecipe(),
        download=_downloader(library.ResNet50_Weights.IMAGENET1K_V1),
        adapt=_adapt,
    )


@register(
    "googlenet",
    paper="Going Deeper with Convolutions",
    year=2015,
    image_size=224,
    pretrained=True,
)
def googlenet(*, in_channels: int = 3) -> Trunk:
    """GoogLeNet of torchvision (with BatchNorm, unlike the paper's): 1,024 features.

    Its weights were trained with pixels in -1..1, not with ImageNet's mean and standard deviation.

    Example:
        >>> googlenet().num_features
        1024
    """
    network = library.GoogLeNet(aux_logits=False, init_weights=True)
    if in_channels != 3:
        network.conv1.conv = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
    return Trunk(
        _maps(network),
        name="googlenet",
        num_features=1024,
        inputs=InputRecipe(),
        download=_downloader(library.GoogLeNet_Weights.IMAGENET1K_V1),
        adapt=_adapt,
    )


def _maps(network: nn.Module) -> nn.Sequential:
    """Return the layers up to the feature maps, in the order of their creation, which is that of forward."""
    layers = [(name, layer) for name, layer in network.named_children() if name not in _AFTER_THE_MAPS]
    return nn.Sequential(OrderedDict(layers))


def _downloader(weights: Any) -> Callable[[], StateDict]:
    return lambda: download_state(weights.url)


def _adapt(state: StateDict) -> StateDict:
    return {key: value for key, value in state.items() if key.split(".")[0] not in _AFTER_THE_MAPS}
