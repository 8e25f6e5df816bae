"""What a trunk is: a network that takes images as transforms leave them and returns features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.records import PluginIdentity
from levelfield.registry import Card

StateDict: TypeAlias = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class TrunkCard(Card):
    """A trunk's card.

    Attributes:
        image_size: The side of the images that its pretrained weights were made for; 0 if any.
        pretrained: Whether ``weights: imagenet`` exists for it.
    """

    image_size: int = 0
    pretrained: bool = False


@dataclass(frozen=True, kw_only=True)
class InputRecipe:
    """How a network's weights want its pixels: ``(pixels * scale - mean) / std``, RGB or BGR.

    ``mean`` and ``std`` are in the network's own scale and channel order, as its authors print them. Pixels
    are in 0..1 before ``scale``.

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
        """Whether pixels, or vectors of any kind, are taken as they come."""
        return set(self.mean) == {0.0} and set(self.std) == {1.0} and self.scale == 1.0 and not self.bgr


IMAGENET_INPUT = InputRecipe(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Trunk(nn.Module):
    """A network with its input convention.

    Example:
        >>> trunk = Trunk(nn.Conv2d(3, 8, 3), name="mine", num_features=8)
        >>> trunk(torch.zeros(2, 3, 16, 16, dtype=torch.uint8)).shape
        torch.Size([2, 8, 14, 14])

    Attributes:
        name: The registered name.
        num_features: F, the width of what ``forward`` returns.
        spatial: Whether ``forward`` returns maps (B x F x h x w) that are still to be pooled, or B x F.
        image_size: The one side of images that it takes; None if it takes any.
        download: Fetches the state dict of the ImageNet weights; None if there are none.
        adapt: Turns a state dict as published into one whose keys are those of ``network``; it drops the
            classifier.
        made_from: The plug-in and the options that it was made with; :func:`levelfield.models.create_trunk`
            sets it. Features are kept under it.
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
        # Constants of the code, not of the weights: they stay out of state dicts.
        self.register_buffer("gain", (self.inputs.scale / std).float().view(-1, 1, 1), persistent=False)
        self.register_buffer("offset", (-mean / std).float().view(-1, 1, 1), persistent=False)
        self.register_state_dict_post_hook(_make_contiguous)  # type: ignore[no-untyped-call]

    def prepare(self, images: Tensor) -> Tensor:
        """Images (B x C x H x W; uint8, or floats in 0..1; RGB) as the network wants them."""
        if self.image_size is not None and images.shape[-2:] != (self.image_size, self.image_size):
            raise UsageError(
                f"trunk {self.name} takes images of {self.image_size} x {self.image_size} pixels, got "
                f"{images.shape[-2]} x {images.shape[-1]}; use a transform with that crop"
            )
        pixels = images.float() / 255 if images.dtype == torch.uint8 else images
        if self.inputs.bgr:
            pixels = pixels.flip(1)
        if self.inputs.identity:
            return pixels
        return torch.addcmul(self.offset, pixels, self.gain)  # one pass over the pixels

    def forward(self, images: Tensor) -> Tensor:
        """Features of images: B x F x h x w if ``spatial``, else B x F."""
        features: Tensor = self.network(self.prepare(images))
        return features


def _make_contiguous(_: nn.Module, state: dict[str, Tensor], prefix: str, __: object) -> None:
    """Give state dicts plain tensors: safetensors refuses the channels-last ones that convolutions like."""
    for key, value in state.items():
        if key.startswith(prefix):
            state[key] = value.contiguous()


def positive(name: str, option: str, value: int) -> int:
    """``value`` if it is at least 1, else an error that names the option."""
    if value < 1:
        raise UsageError(f"{name}: {option} is {value}; it must be at least 1")
    return value
