"""Conversion of paths, file bytes, Pillow images, arrays and tensors to pixels."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from levelfield.data import ImageError, decode_image, read_image, to_tensor

ImageInput: TypeAlias = str | Path | bytes | Image.Image | npt.NDArray[np.uint8] | Tensor
GRAY = (0.299, 0.587, 0.114)  # ITU-R 601, as Pillow's mode L


def decode_pixels(image: ImageInput) -> Tensor:
    """Return the image as a uint8 tensor C x H x W.

    Files and bytes are decoded by content, not by file extension, to upright RGB: see docs/datasets.md.
    Arrays are H x W or H x W x C, tensors C x H x W, both uint8.

    Raises:
        ImageError: The input is not an image.

    Example:
        >>> decode_pixels(Image.new("CMYK", (4, 2))).shape
        torch.Size([3, 2, 4])
    """
    match image:
        case str() | Path():
            return read_image(Path(image))
        case bytes():
            if not image:
                raise ImageError("the image is empty (0 bytes); send it again")
            return decode_image(io.BytesIO(image), name="the image")
        case Image.Image():
            return to_tensor(image)
        case np.ndarray() if image.dtype == np.uint8 and image.ndim in {2, 3}:
            return to_tensor(Image.fromarray(image))
        case Tensor() if image.dtype == torch.uint8 and image.ndim == 3 and image.shape[0] in {1, 3}:
            return image
    shape = getattr(image, "shape", None)
    described = f"{type(image).__name__}{'' if shape is None else f' {image.dtype} {tuple(shape)}'}"
    raise ImageError(f"a {described} is not an image; pass a path, bytes, a Pillow image or uint8 pixels")


def as_list(images: ImageInput | Iterable[ImageInput]) -> list[ImageInput]:
    """Return one image, several images or a batch (B x C x H x W) as a list of images.

    Example:
        >>> len(as_list("bird.jpg")), len(as_list(torch.zeros(4, 3, 8, 8, dtype=torch.uint8)))
        (1, 4)
    """
    if isinstance(images, (str, Path, bytes, Image.Image)):
        return [images]
    if isinstance(images, (np.ndarray, Tensor)) and images.ndim < 4:
        return [images]
    return list(images)


def convert_channels(pixels: Tensor, channels: int) -> Tensor:
    """Convert uint8 pixels (C x H x W) to color (3 channels) or gray (1).

    Example:
        >>> convert_channels(torch.full((3, 1, 1), 200, dtype=torch.uint8), 1)
        tensor([[[200]]], dtype=torch.uint8)
    """
    if pixels.shape[0] == channels:
        return pixels
    if channels == 1:
        weights = torch.tensor(GRAY).view(3, 1, 1)
        return (pixels.float() * weights).sum(0, keepdim=True).round().to(torch.uint8)
    return pixels.expand(channels, -1, -1)


def resize_pixels(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize uint8 pixels (C x H x W) to ``size``, height and width.

    Example:
        >>> resize_pixels(torch.zeros(3, 5, 9, dtype=torch.uint8), (4, 4)).shape
        torch.Size([3, 4, 4])
    """
    if tuple(pixels.shape[1:]) == size:
        return pixels
    batch = pixels[None].contiguous(memory_format=torch.channels_last)
    return F.interpolate(batch, size=size, mode="bilinear", antialias=True)[0]
