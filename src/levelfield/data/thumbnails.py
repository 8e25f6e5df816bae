"""Thumbnails as WebP bytes, for HTML pages."""

from __future__ import annotations

import io

from PIL import Image
from torch import Tensor

QUALITY = 70


def encode_thumbnail(pixels: Tensor, *, side: int) -> bytes:
    """Return an image as WebP bytes with its longer side at most ``side``; smaller images keep their size.

    Args:
        pixels: uint8 tensor, C x H x W, with one or three channels.
        side: Largest side, in pixels.

    Example:
        >>> import torch
        >>> encoded = encode_thumbnail(torch.zeros(3, 40, 20, dtype=torch.uint8), side=10)
        >>> Image.open(io.BytesIO(encoded)).size
        (5, 10)
    """
    image = Image.fromarray(pixels.permute(1, 2, 0).squeeze(-1).cpu().numpy()).convert("RGB")
    image.thumbnail((side, side), Image.Resampling.BOX)
    stream = io.BytesIO()
    image.save(stream, "WEBP", quality=QUALITY, method=6)
    return stream.getvalue()
