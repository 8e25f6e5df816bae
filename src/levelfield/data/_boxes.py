"""Parts of images that stand for them, such as the building that a query asks for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor


def crop_to_box(image: Tensor, box: npt.NDArray[np.float64]) -> Tensor:
    """Return the part of an image (C x H x W) in a box; the image itself if the box is NaN.

    Coordinates are rounded, as Pillow does. Parts of the box outside of the image are left out.

    Example:
        >>> import torch
        >>> crop_to_box(torch.zeros(3, 10, 20), np.array([2.4, 3.0, 9.0, 99.0])).shape
        torch.Size([3, 7, 7])
    """
    if np.isnan(box).any():
        return image
    height, width = image.shape[-2:]
    left, top, right, bottom = (round(float(edge)) for edge in box)
    left, top, right, bottom = max(left, 0), max(top, 0), min(right, width), min(bottom, height)
    if left >= right or top >= bottom:
        shown = ", ".join(f"{edge:g}" for edge in box)
        raise ValueError(f"the box {shown} is outside of its {width} x {height} pixels")
    return image[:, top:bottom, left:right]
