"""Any picture as pixels: a path, the bytes of a file, a Pillow image, an array or a tensor."""

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

Picture: TypeAlias = str | Path | bytes | Image.Image | npt.NDArray[np.uint8] | Tensor
GREY = (0.299, 0.587, 0.114)  # ITU-R 601, as Pillow's mode L


def pixels_of(picture: Picture) -> Tensor:
    """The picture as a uint8 tensor C x H x W; ImageError, one line, if it is none.

    Files and bytes come out upright and in RGB, whatever their name says: see docs/datasets.md. Arrays are
    H x W or H x W x C, tensors C x H x W, both uint8.

    Example:
        >>> pixels_of(Image.new("CMYK", (4, 2))).shape
        torch.Size([3, 2, 4])
    """
    match picture:
        case str() | Path():
            return read_image(Path(picture))
        case bytes():
            if not picture:
                raise ImageError("the picture is empty (0 bytes); send it again")
            return decode_image(io.BytesIO(picture), name="the picture")
        case Image.Image():
            return to_tensor(picture)
        case np.ndarray() if picture.dtype == np.uint8 and picture.ndim in {2, 3}:
            return to_tensor(Image.fromarray(picture))
        case Tensor() if picture.dtype == torch.uint8 and picture.ndim == 3 and picture.shape[0] in {1, 3}:
            return picture
    shape = getattr(picture, "shape", None)
    described = f"{type(picture).__name__}{'' if shape is None else f' {picture.dtype} {tuple(shape)}'}"
    raise ImageError(f"a {described} is no picture; give a path, bytes, a Pillow image or uint8 pixels")


def as_list(pictures: Picture | Iterable[Picture]) -> list[Picture]:
    """One picture as a list of one; several (a batch B x C x H x W among them) as a list.

    Example:
        >>> len(as_list("bird.jpg")), len(as_list(torch.zeros(4, 3, 8, 8, dtype=torch.uint8)))
        (1, 4)
    """
    if isinstance(pictures, (str, Path, bytes, Image.Image)):
        return [pictures]
    if isinstance(pictures, (np.ndarray, Tensor)) and pictures.ndim < 4:
        return [pictures]
    return list(pictures)


def with_channels(pixels: Tensor, channels: int) -> Tensor:
    """uint8 pixels (C x H x W) as colour (3 channels) or grey (1).

    Example:
        >>> with_channels(torch.full((3, 1, 1), 200, dtype=torch.uint8), 1)
        tensor([[[200]]], dtype=torch.uint8)
    """
    if pixels.shape[0] == channels:
        return pixels
    if channels == 1:
        weights = torch.tensor(GREY).view(3, 1, 1)
        return (pixels.float() * weights).sum(0, keepdim=True).round().to(torch.uint8)
    return pixels.expand(channels, -1, -1)


def resized(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    """uint8 pixels (C x H x W) brought to this height and width.

    Example:
        >>> resized(torch.zeros(3, 5, 9, dtype=torch.uint8), (4, 4)).shape
        torch.Size([3, 4, 4])
    """
    if tuple(pixels.shape[1:]) == size:
        return pixels
    batch = pixels[None].contiguous(memory_format=torch.channels_last)
    return F.interpolate(batch, size=size, mode="bilinear", antialias=True)[0]
