"""Crop boxes: drawn for a whole batch at once from a generator, in torchvision's distributions.

Sizes and boxes are int64 tensors: sizes B x 2 (height, width), boxes B x 4 (top, left, height, width).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TRIES = 10  # as torchvision: that many draws, then the largest central box of an allowed shape


def centre_boxes(sizes: Tensor, side: int) -> Tensor:
    """The central square of every image.

    Example:
        >>> centre_boxes(torch.tensor([[256, 300]]), 224).tolist()
        [[16, 38, 224, 224]]
    """
    squares = torch.full_like(sizes, side)
    # torchvision rounds half a pixel to the even side; so do we
    corners = ((sizes - squares).double() / 2).round().long()
    return torch.cat([corners, squares], dim=1)


def random_boxes(sizes: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """A square at a uniformly drawn place of every image.

    Example:
        >>> random_boxes(torch.tensor([[8, 8]]), 8, torch.Generator()).tolist()
        [[0, 0, 8, 8]]
    """
    squares = torch.full_like(sizes, side)
    places = torch.rand(len(sizes), 2, dtype=torch.float64, generator=generator)
    return torch.cat([_corners(places, sizes, squares), squares], dim=1)


def random_resized_boxes(
    sizes: Tensor, generator: torch.Generator, *, scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """A box of uniformly drawn area and log-uniformly drawn shape at a uniformly drawn place.

    Args:
        sizes: Heights and widths of the images, B x 2.
        generator: Where the randomness comes from; it advances by the same amount for every image.
        scale: The smallest and largest area, as a fraction of the image's.
        ratio: The smallest and largest width / height.

    Example:
        >>> sizes = torch.tensor([[9, 9]])
        >>> random_resized_boxes(sizes, torch.Generator(), scale=(1, 1), ratio=(1, 1)).tolist()
        [[0, 0, 9, 9]]
    """
    count = len(sizes)
    draws = torch.rand(count, TRIES, 4, dtype=torch.float64, generator=generator)
    area = sizes.prod(1, keepdim=True) * draws[..., 0].mul(scale[1] - scale[0]).add(scale[0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    shape = draws[..., 1].mul(high - low).add(low).exp()
    boxes = torch.stack([(area / shape).sqrt(), (area * shape).sqrt()], dim=-1).round().long()
    fits = ((boxes > 0) & (boxes <= sizes[:, None])).all(-1)
    rows, first = torch.arange(count), fits.int().argmax(1)  # argmax gives the first of equals
    chosen = boxes[rows, first]
    drawn = torch.cat([_corners(draws[rows, first, 2:], sizes, chosen), chosen], dim=1)
    return torch.where(fits.any(1, keepdim=True), drawn, _largest_central(sizes, ratio))


def _corners(places: Tensor, sizes: Tensor, boxes: Tensor) -> Tensor:
    """Whole-numbered corners from places in [0, 1)."""
    return (places * (sizes - boxes + 1)).floor().long()


def _largest_central(sizes: Tensor, ratio: tuple[float, float]) -> Tensor:
    height, width = sizes.double().unbind(1)
    boxes = torch.stack(
        [
            torch.minimum(height, (width / ratio[0]).round()),
            torch.minimum(width, (height * ratio[1]).round()),
        ],
        dim=1,
    ).long()
    return torch.cat([(sizes - boxes) // 2, boxes], dim=1)
