"""Random color changes, drawn from a generator and applied by torchvision."""

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


def random_colors(batch: Tensor, generator: torch.Generator, *, strength: float, gray: float) -> Tensor:
    """Turn some images gray, then jitter brightness, contrast, saturation and hue in a random order.

    Args:
        batch: uint8, B x C x h x w; changed in place.
        generator: Source of randomness, on the CPU.
        strength: Brightness, contrast and saturation are scaled by up to 1 +- strength; the hue is shifted by
            up to +- strength of a full circle.
        gray: Probability that an image becomes gray.

    Example:
        >>> black = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
        >>> random_colors(black, torch.Generator(), strength=0.2, gray=0.5).sum().item()
        0
    """
    count, channels = batch.shape[:2]
    draws = torch.rand(count, 9, dtype=torch.float64, generator=generator)
    turns_gray = (draws[:, 0] < gray).tolist()
    changes = (draws[:, 1:5] * 2 - 1) * strength
    orders = draws[:, 5:].argsort(1).tolist()  # argsort of uniform draws is a uniform permutation
    for image, to_gray, change, order in zip(batch, turns_gray, changes.tolist(), orders, strict=True):
        changed = F.rgb_to_grayscale(image, num_output_channels=3) if to_gray and channels == 3 else image
        for which in order:
            center = 0.0 if ADJUSTMENTS[which] is F.adjust_hue else 1.0
            changed = ADJUSTMENTS[which](changed, center + change[which])
        image.copy_(changed)
    return batch
