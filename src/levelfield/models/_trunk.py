"""Trunk: a network from images, as transforms return them, to features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.registry import Card
from levelfield.records import PluginIdentity

StateDict: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class TrunkCard(Card):
    """Card of a trunk.

    Attributes:
        image_size: Image side that the pretrained weights were trained with, in pixels; 0 for any.
        pretrained: Whether published weights exist (``weights: imagenet`` or ``hub``).
    """

    image_size: int = 0
    pretrained: bool = False


@dataclass(frozen=True, kw_only=True)
class InputRecipe:
    """Input normalization of a network: ``(pixels * scale - mean) / std``, RGB or BGR.

    Pixels are in 0..1 before ``scale``. ``mean`` and ``std`` are in the scale and channel order of the
    network, as its authors publish them.

    Example:
        >>> InputRecipe().mean  # by default, pixels in -1..1
        (0.5,)
        >>> InputRecipe(mean=(104, 117, 128), std=(1, 1, 1), scale=255, bgr=True).bgr
        True
    """

    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)
    scale: float = 1.0
    bgr: bool = False

    @property
    def identity(self) -> bool:
        """True if the inputs are used unchanged."""
        return set(self.mean) == {0.0} and set(self.std) == {1.0} and self.scale == 1.0 and not self.bgr


IMAGENET_INPUT = InputRecipe(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Trunk(nn.Module):
    """Network with its input normalization.

    Example:
        >>> trunk = Trunk(nn.Conv2d(3, 8, 3), name="mine", num_features=8)
        >>> trunk(torch.zeros(2, 3, 16, 16, dtype=torch.uint8)).shape
        torch.Size([2, 8, 14, 14])

    Attributes:
        name: Registered name.
        num_features: Feature size F of the output.
        spatial: True if ``forward`` returns maps (B x F x h x w), False if it returns vectors (B x F).
        image_size: Required image side, in pixels; None for any.
        download: Function that downloads the published state dict; None if there is none.
        adapt: Function that converts a published state dict to the keys of ``network``, without the
            classifier.
        made_from: Plug-in and options of the trunk, part of the identity of cached features; set by
            :func:`levelfield.models.create_trunk`.
    """

    gain: Tensor
    offset: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        name: str,
        num_features: int,
        spatial: bool = True,
        inputs: InputRecipe | None = None,
        image_size: int | None = None,
        download: Callable[[], StateDict] | None = None,
        adapt: Callable[[StateDict], StateDict] = dict,
    ) -> None:
        super().__init__()
        self.network = network
        self.name = name
        self.num_features = num_features
        self.spatial = spatial
        self.image_size = image_size
        self.download = download
        self.adapt = adapt
        self.inputs = inputs or InputRecipe()
        self.made_from: PluginIdentity | None = None
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (self.inputs.mean, self.inputs.std))
        # Constants, not weights: not in state dicts.
        self.register_buffer("gain", (self.inputs.scale / std).float().view(-1, 1, 1), persistent=False)
        self.register_buffer("offset", (-mean / std).float().view(-1, 1, 1), persistent=False)
        # torch has no types here
        self.register_state_dict_post_hook(_make_contiguous)  # type: ignore[no-untyped-call]

    def prepare(self, images: Tensor) -> Tensor:
        """Return images (B x C x H x W; uint8, or floats in 0..1; RGB), normalized for the network."""
        if self.image_size is not None and images.shape[-2:] != (self.image_size, self.image_size):
            raise UsageError(
                f"trunk {self.name} needs images of {self.image_size} x {self.image_size} pixels, got "
                f"{images.shape[-2]} x {images.shape[-1]}; use a transform with that crop size"
            )
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images
        if self.inputs.bgr:
            pixels = pixels.flip(1)
        if self.inputs.identity:
            return pixels
        return torch.addcmul(self.offset, pixels, self.gain)  # a single pass over the pixels

    def forward(self, images: Tensor) -> Tensor:
        """Return the features of images: B x F x h x w if ``spatial``, else B x F."""
        features: Tensor = self.network(self.prepare(images))
        return features


def _make_contiguous(_: nn.Module, state: dict[str, Tensor], prefix: str, __: object) -> None:
    """Make tensors of a state dict contiguous: safetensors does not accept channels-last tensors."""
    for key, value in state.items():
        if key.startswith(prefix):
            state[key] = value.contiguous()


def check_positive(name: str, option: str, value: int) -> int:
    """Return ``value``; raise UsageError if it is less than 1."""
    if value < 1:
        raise UsageError(f"{name}: {option} is {value}; it must be at least 1")
    return value
