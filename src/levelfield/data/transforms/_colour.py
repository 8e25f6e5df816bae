"""Random changes of colour, drawn from a generator and applied by torchvision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as F

ADJUSTMENTS: tuple[Callable[[Tensor, float], Tensor], ...] = (
    F.adjust_brightness,
    F.adjust_contrast,
    F.adjust_saturation,
    F.adjust_hue,
)


def random_colours(batch: Tensor, generator: torch.Generator, *, strength: float, grey: float) -> Tensor:
    """Turn some images grey, then jitter brightness, contrast, saturation and hue in a random order.

    Args:
        batch: uint8, B x C x h x w; changed in place.
        generator: Where the randomness comes from (on the CPU).
        strength: Brightness, contrast and saturation are scaled by up to 1 +- strength; the hue is turned by
            up to +- strength of a full circle.
        grey: How likely an image loses its colour.

    Example:
        >>> black = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
        >>> random_colours(black, torch.Generator(), strength=0.2, grey=0.5).sum().item()
        0
    """
    count, channels = batch.shape[:2]
    draws = torch.rand(count, 9, dtype=torch.float64, generator=generator)
    turns_grey = (draws[:, 0] < grey).tolist()
    changes = (draws[:, 1:5] * 2 - 1) * strength
    orders = draws[:, 5:].argsort(1).tolist()  # the order of uniform draws is a uniform permutation
    for image, to_grey, change, order in zip(batch, turns_grey, changes.tolist(), orders, strict=True):
        changed = F.rgb_to_grayscale(image, num_output_channels=3) if to_grey and channels == 3 else image
        for which in order:
            centre = 0.0 if ADJUSTMENTS[which] is F.adjust_hue else 1.0
            changed = ADJUSTMENTS[which](changed, centre + change[which])
        image.copy_(changed)
    return batch
