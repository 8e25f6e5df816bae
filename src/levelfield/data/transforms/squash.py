"""Whole images resized to a square, with RandAugment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.transforms import InterpolationMode, v2

from levelfield.core.errors import UsageError
from levelfield.core.options import ImageSize
from levelfield.data.transforms import register
from levelfield.data.transforms._crop import check_images


@dataclass(frozen=True, kw_only=True)
class Squash:
    """Transform that resizes whole images to squares, then applies RandAugment.

    Attributes:
        size: Side of the output, in pixels.
        operations: Number of RandAugment operations per image; 0 for evaluation.
    """

    size: int
    operations: int

    def __post_init__(self) -> None:
        if self.operations < 0:
            raise UsageError(f"operations is {self.operations}; RandAugment needs 0 or more")

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        """Return uint8 images C x H x W as one uint8 batch B x C x size x size."""
        check_images(images)
        squares = [v2.functional.resize(image, [self.size, self.size], antialias=True) for image in images]
        if self.operations:
            distort = v2.RandAugment(self.operations, interpolation=InterpolationMode.BILINEAR)
            with torch.random.fork_rng(devices=[]):  # torchvision draws from the global generator
                torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
                squares = [distort(square) for square in squares]
        return torch.stack(squares)


@register("squash", size=224, paper="All You Need to Know About Training Image Retrieval Models", year=2025)
def squash(*, train: bool, size: ImageSize = 224, operations: int = 3) -> Squash:
    """Berton, Musgrave and Masone: the whole image resized to a square, three RandAugment operations.

    Example:
        >>> square = squash(train=False, size=4)
        >>> square([torch.zeros(3, 8, 12, dtype=torch.uint8)], torch.Generator()).shape
        torch.Size([1, 3, 4, 4])
    """
    return Squash(size=size, operations=operations if train else 0)
