"""Crop boxes for a whole batch, drawn from a generator with torchvision's distributions.

Sizes and boxes are int64 tensors: sizes B x 2 (height, width), boxes B x 4 (top, left, height, width).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TRIES = 10  # as in torchvision: this many draws, then the largest central box of an allowed shape


def center_boxes(sizes: Tensor, side: int) -> Tensor:
    """Return the central square of every image.

    Example:
        >>> center_boxes(torch.tensor([[256, 300]]), 224).tolist()
        [[16, 38, 224, 224]]
    """
    squares = torch.full_like(sizes, side)
    # round half to even, as torchvision does
    corners = ((sizes - squares).double() / 2).round().long()
    return torch.cat([corners, squares], dim=1)


def random_boxes(sizes: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """Return a square at a uniformly random position of every image.

    Example:
        >>> random_boxes(torch.tensor([[8, 8]]), 8, torch.Generator()).tolist()
        [[0, 0, 8, 8]]
    """
    squares = torch.full_like(sizes, side)
    positions = torch.rand(len(sizes), 2, dtype=torch.float64, generator=generator)
    return torch.cat([_corners(positions, sizes, squares), squares], dim=1)


def random_resized_boxes(
    sizes: Tensor, generator: torch.Generator, *, scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Return a box of uniform area and log-uniform aspect ratio at a uniform position of every image.

    Args:
        sizes: Heights and widths of the images, B x 2.
        generator: Source of randomness; it advances by the same amount for every image.
        scale: Smallest and largest area, as fractions of the image area.
        ratio: Smallest and largest width / height.

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
    rows, first = torch.arange(count), fits.int().argmax(1)  # argmax returns the first maximum
    chosen = boxes[rows, first]
    drawn = torch.cat([_corners(draws[rows, first, 2:], sizes, chosen), chosen], dim=1)
    return torch.where(fits.any(1, keepdim=True), drawn, _largest_central(sizes, ratio))


def _corners(positions: Tensor, sizes: Tensor, boxes: Tensor) -> Tensor:
    """Return integer corners from positions in [0, 1)."""
    return (positions * (sizes - boxes + 1)).floor().long()


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
