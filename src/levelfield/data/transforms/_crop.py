"""The one shape that the papers' recipes share: resize, crop, flip, colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.data.transforms._boxes import centre_boxes, random_boxes, random_resized_boxes
from levelfield.data.transforms._colour import random_colours
from levelfield.data.transforms._resample import (
    crop_and_resize,
    crop_and_resize_by_matrices,
    resize_shorter,
)
from levelfield.errors import UsageError

RATIO = (3 / 4, 4 / 3)


@dataclass(frozen=True, kw_only=True)
class Crop:
    """A transform that resizes, crops, mirrors and changes colours.

    Attributes:
        size: Side of the output.
        crop: "centre" and "random" cut a square of ``size``; "resized" cuts a box of random area and shape
            and resizes it to ``size``. The random ones mirror half of their crops.
        first_resize: Where the shorter side is brought to before anything else; None leaves the image as
            it is. An image store that was prepared with the same resize saves this step.
        smallest: For "resized": the smallest area of a box, as a fraction of the image.
        jitter: Strength of the colour jitter; 0 leaves the colours alone.
        grey: How likely an image loses its colour.
        device: Where the batch is made. On a GPU it is made by batched matrix products; the bits then
            differ from the CPU's by at most one grey level.

    Example:
        >>> centre = Crop(size=2, crop="centre", first_resize=4)
        >>> centre([torch.zeros(3, 8, 12, dtype=torch.uint8)], torch.Generator()).shape
        torch.Size([1, 3, 2, 2])
    """

    size: int
    crop: Literal["centre", "random", "resized"]
    first_resize: int | None
    smallest: float = 0.08
    jitter: float = 0.0
    grey: float = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"a crop needs size >= 1, got {self.size}")
        if not 0 < self.smallest <= 1:
            raise UsageError(f"a random resized crop needs 0 < smallest <= 1, got {self.smallest}")
        if self.first_resize is not None and self.first_resize < self.size and self.crop != "resized":
            raise UsageError(
                f"a crop of {self.size} does not fit images resized to {self.first_resize}; "
                f"set resize to {self.size} or more"
            )

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        """One uint8 batch B x C x size x size out of uint8 images C x H x W."""
        check_images(images)
        if self.first_resize is not None:
            images = [resize_shorter(image, self.first_resize) for image in images]
        boxes, flips = self.draw(torch.tensor([image.shape[1:] for image in images]), generator)
        device = torch.device(self.device)
        if device.type == "cpu":
            batch = crop_and_resize(images, boxes, flips, self.size)
        else:
            batch = crop_and_resize_by_matrices(images, boxes, flips, self.size, device=device)
        if self.jitter or self.grey:
            random_colours(batch, generator, strength=self.jitter, grey=self.grey)
        return batch

    def draw(self, sizes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The boxes (B x 4) and flips (B) for images of these heights and widths (B x 2)."""
        if self.crop == "centre":
            return centre_boxes(sizes, self.size), torch.zeros(len(sizes), dtype=torch.bool)
        if self.crop == "random":
            boxes = random_boxes(sizes, self.size, generator)
        else:
            boxes = random_resized_boxes(sizes, generator, scale=(self.smallest, 1.0), ratio=RATIO)
        return boxes, torch.rand(len(sizes), dtype=torch.float64, generator=generator) < 0.5


def check_images(images: Sequence[Tensor]) -> None:
    """Refuse an empty batch, images that are not uint8 C x H x W, and a mix of grey and colour."""
    if not images:
        raise UsageError("a transform needs at least one image, got an empty batch")
    for image in images:
        if image.dtype != torch.uint8 or image.ndim != 3 or 0 in image.shape:
            raise UsageError(
                f"a transform needs uint8 images of shape C x H x W, got {image.dtype} of shape "
                f"{tuple(image.shape)}"
            )
    channels = sorted({image.shape[0] for image in images})
    if len(channels) > 1:
        raise UsageError(
            f"a batch holds images of {channels[0]} and of {channels[-1]} channels; "
            "convert them to one kind in the dataset"
        )
