"""Crop transform shared by the papers: resize, crop, flip, color jitter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.data.transforms._boxes import center_boxes, random_boxes, random_resized_boxes
from levelfield.data.transforms._color import random_colors
from levelfield.data.transforms._resample import (
    crop_and_resize,
    crop_and_resize_by_matrices,
    resize_shorter,
)

RATIO = (3 / 4, 4 / 3)


@dataclass(frozen=True, kw_only=True)
class Crop:
    """Transform that resizes, crops, flips and changes colors.

    Attributes:
        size: Side of the output, in pixels.
        crop: "center" and "random" crop a square of ``size``. "resized" crops a box of random area and aspect
            ratio and resizes it to ``size``. "random" and "resized" flip half of their crops.
        first_resize: Shorter side before the crop, in pixels; None keeps the original size. An image store
            with the same resize saves this step.
        smallest: For "resized": smallest area of a box, as a fraction of the image area.
        jitter: Strength of the color jitter; 0 for none.
        gray: Probability that an image becomes gray.
        device: Device that computes the batch. A GPU uses batched matrix products; its pixels differ from the
            CPU's by at most one gray level.

    Example:
        >>> center = Crop(size=2, crop="center", first_resize=4)
        >>> center([torch.zeros(3, 8, 12, dtype=torch.uint8)], torch.Generator()).shape
        torch.Size([1, 3, 2, 2])
    """

    size: int
    crop: Literal["center", "random", "resized"]
    first_resize: int | None
    smallest: float = 0.08
    jitter: float = 0.0
    gray: float = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"size is {self.size}; a crop needs at least 1")
        if not 0 < self.smallest <= 1:
            raise UsageError(f"smallest is {self.smallest}; a random resized crop needs 0 < smallest <= 1")
        if self.first_resize is not None and self.first_resize < self.size and self.crop != "resized":
            raise UsageError(
                f"a crop of {self.size} does not fit images resized to {self.first_resize}; "
                f"set resize to {self.size} or more"
            )

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        """Return uint8 images C x H x W as one uint8 batch B x C x size x size."""
        check_images(images)
        if self.first_resize is not None:
            images = [resize_shorter(image, self.first_resize) for image in images]
        boxes, flips = self.draw(torch.tensor([image.shape[1:] for image in images]), generator)
        device = torch.device(self.device)
        if device.type == "cpu":
            batch = crop_and_resize(images, boxes, flips, self.size)
        else:
            batch = crop_and_resize_by_matrices(images, boxes, flips, self.size, device=device)
        if self.jitter or self.gray:
            random_colors(batch, generator, strength=self.jitter, gray=self.gray)
        return batch

    def draw(self, sizes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the boxes (B x 4) and flips (B) for images of these heights and widths (B x 2)."""
        if self.crop == "center":
            return center_boxes(sizes, self.size), torch.zeros(len(sizes), dtype=torch.bool)
        if self.crop == "random":
            boxes = random_boxes(sizes, self.size, generator)
        else:
            boxes = random_resized_boxes(sizes, generator, scale=(self.smallest, 1.0), ratio=RATIO)
        return boxes, torch.rand(len(sizes), dtype=torch.float64, generator=generator) < 0.5


def check_images(images: Sequence[Tensor]) -> None:
    """Raise UsageError for an empty batch, images that are not uint8 C x H x W, or mixed channel counts."""
    if not images:
        raise UsageError("the batch is empty; a transform needs at least one image")
    for image in images:
        if image.dtype != torch.uint8 or image.ndim != 3 or 0 in image.shape:
            raise UsageError(
                f"an image is {image.dtype} of shape {tuple(image.shape)}; "
                "a transform needs uint8 images of shape C x H x W"
            )
    channels = sorted({image.shape[0] for image in images})
    if len(channels) > 1:
        raise UsageError(
            f"a batch has images of {channels[0]} and of {channels[-1]} channels; "
            "convert them to the same number of channels in the dataset"
        )
