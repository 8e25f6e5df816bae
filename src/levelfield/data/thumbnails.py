"""Small pictures to look at: bytes that a browser understands."""

from __future__ import annotations

import io

from PIL import Image
from torch import Tensor

QUALITY = 70


def thumbnail(pixels: Tensor, *, side: int) -> bytes:
    """An image as WebP whose longer side is at most ``side``; smaller images keep their size.

    Args:
        pixels: uint8, C x H x W, of one or three channels.
        side: In pixels.

    Example:
        >>> import torch
        >>> picture = thumbnail(torch.zeros(3, 40, 20, dtype=torch.uint8), side=10)
        >>> Image.open(io.BytesIO(picture)).size
        (5, 10)
    """
    image = Image.fromarray(pixels.permute(1, 2, 0).squeeze(-1).cpu().numpy()).convert("RGB")
    image.thumbnail((side, side), Image.Resampling.BOX)
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=QUALITY, method=6)
    return stream.getvalue()
