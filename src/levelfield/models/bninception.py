"""BN-Inception (Inception v2), the trunk of most metric learning papers between 2016 and 2020.

The layer names are those of the widely used weights file ``bn_inception-52deb4733.pth``, which was converted
from Caffe. This explains the flat names, the convolutions with a bias before BatchNorm, the pooling with
``ceil_mode``, and the input of BGR pixels in 0..255.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, fx, nn

from levelfield.core.errors import UsageError
from levelfield.models import register
from levelfield.models._download import download_state
from levelfield.models._trunk import InputRecipe, StateDict, Trunk

WEIGHTS_URL = "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth"
# Of the whole file; its name has the first nine digits.
WEIGHTS_SHA256 = "52deb473314542a5c2f87e9e6f26f4ca42fe863d15f986414dbae8c2dfdd2353"
CAFFE_INPUT = InputRecipe(mean=(104.0, 117.0, 128.0), std=(1.0, 1.0, 1.0), scale=255.0, bgr=True)


@dataclass(frozen=True)
class InceptionBlock:
    """Channel counts of one inception block; ``ones`` = 0 for a block that halves the map."""

    name: str
    before: int
    ones: int
    three: tuple[int, int]
    double: tuple[int, int]
    pool: Literal["avg", "max"]
    pool_proj: int

    @property
    def after(self) -> int:
        """Channels of the output; a halving block includes its pooled input."""
        return self.ones + self.three[1] + self.double[1] + (self.pool_proj or self.before)


BLOCKS = (
    InceptionBlock("3a", 192, 64, (64, 64), (64, 96), "avg", 32),
    InceptionBlock("3b", 256, 64, (64, 96), (64, 96), "avg", 64),
    InceptionBlock("3c", 320, 0, (128, 160), (64, 96), "max", 0),
    InceptionBlock("4a", 576, 224, (64, 96), (96, 128), "avg", 128),
    InceptionBlock("4b", 576, 192, (96, 128), (96, 128), "avg", 128),
    InceptionBlock("4c", 576, 160, (128, 160), (128, 160), "avg", 128),
    InceptionBlock("4d", 608, 96, (128, 192), (160, 192), "avg", 128),
    InceptionBlock("4e", 608, 0, (128, 192), (192, 256), "max", 0),
    InceptionBlock("5a", 1056, 352, (192, 320), (160, 224), "avg", 128),
    InceptionBlock("5b", 1024, 352, (192, 320), (192, 224), "max", 128),
)


class BNInception(nn.Module):
    """BN-Inception: images (B x C x H x W) to maps (B x 1024 x H/32 x W/32)."""

    def __init__(self, *, in_channels: int = 3) -> None:
        super().__init__()
        self._add("conv1_7x7_s2", in_channels, 64, kernel=7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, kernel=3)
        for block in BLOCKS:
            self._add_block(block)

    def forward(self, images: Tensor) -> Tensor:
        """Return the maps (B x 1024 x h x w) of images (B x C x H x W)."""
        maps = _halve(self._apply_layer("conv1_7x7_s2", images))
        maps = self._apply_layer("conv2_3x3", self._apply_layer("conv2_3x3_reduce", maps))
        maps = _halve(maps)
        for block in BLOCKS:
            maps = self._apply_block(block, maps)
        return maps

    def _add(self, name: str, before: int, after: int, *, kernel: int = 1, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(after))

    def _add_block(self, block: InceptionBlock) -> None:
        name, stride = f"inception_{block.name}", 1 if block.ones else 2
        if block.ones:
            self._add(f"{name}_1x1", block.before, block.ones)
        self._add(f"{name}_3x3_reduce", block.before, block.three[0])
        self._add(f"{name}_3x3", *block.three, kernel=3, stride=stride)
        self._add(f"{name}_double_3x3_reduce", block.before, block.double[0])
        self._add(f"{name}_double_3x3_1", *block.double, kernel=3)
        self._add(f"{name}_double_3x3_2", block.double[1], block.double[1], kernel=3, stride=stride)
        if block.pool_proj:
            self._add(f"{name}_pool_proj", block.before, block.pool_proj)

    def _apply_layer(self, name: str, maps: Tensor) -> Tensor:
        normed: Tensor = getattr(self, f"{name}_bn")(getattr(self, name)(maps))
        return normed.relu_()

    def _apply_block(self, block: InceptionBlock, maps: Tensor) -> Tensor:
        name = f"inception_{block.name}"
        branches = [("3x3_reduce", "3x3"), ("double_3x3_reduce", "double_3x3_1", "double_3x3_2")]
        outputs = []
        for branch in [("1x1",), *branches] if block.ones else branches:
            output = maps
            for layer in branch:
                output = self._apply_layer(f"{name}_{layer}", output)
            outputs.append(output)
        if not block.pool_proj:
            return _join_halved(outputs, maps)
        return torch.cat([*outputs, self._apply_layer(f"{name}_pool_proj", _smooth(block, maps))], 1)


def _halve(maps: Tensor) -> Tensor:
    return nn.functional.max_pool2d(maps, 3, stride=2, ceil_mode=True)


@fx.wrap  # torch.fx cannot trace the check, so this is one operation
def _join_halved(outputs: list[Tensor], maps: Tensor) -> Tensor:
    """Return the concatenated outputs of a halving block and its pooled input."""
    halved = _halve(maps)
    if halved.shape[2:] != outputs[0].shape[2:]:
        raise UsageError(
            f"bninception: maps of {maps.shape[2]} x {maps.shape[3]} cannot be halved; use "
            "images whose side is a multiple of 32, or 227"
        )
    return torch.cat([*outputs, halved], 1)


def _smooth(block: InceptionBlock, maps: Tensor) -> Tensor:
    pool = nn.functional.avg_pool2d if block.pool == "avg" else nn.functional.max_pool2d
    return pool(maps, 3, stride=1, padding=1, ceil_mode=True)


def _adapt(state: StateDict) -> StateDict:
    """Drop the classifier and squeeze BatchNorm vectors, which the public file stores as 1 x C."""
    return {
        key: value.squeeze(0) if "_bn." in key and value.ndim == 2 else value
        for key, value in state.items()
        if not key.startswith(("last_linear.", "fc."))
    }


@register(
    "bninception",
    paper="Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
    year=2015,
    image_size=224,
    pretrained=True,
)
def bninception(*, in_channels: int = 3) -> Trunk:
    """Inception with BatchNorm: 1,024 features; the trunk of the reality check.

    Example:
        >>> bninception().num_features
        1024
    """
    return Trunk(
        BNInception(in_channels=in_channels),
        name="bninception",
        num_features=BLOCKS[-1].after,
        inputs=CAFFE_INPUT if in_channels == 3 else InputRecipe(),
        download=lambda: download_state(WEIGHTS_URL, sha256=WEIGHTS_SHA256),
        adapt=_adapt,
    )
