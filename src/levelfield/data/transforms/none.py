"""No transform: stack images of the same size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.data.transforms import Transform, register


@register("none")
def none(*, train: bool) -> Transform:
    """No change: images of the same size are stacked, in training and evaluation."""
    return stack


def stack(images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """Return the images, all of shape C x H x W, as one tensor B x C x H x W.

    Example:
        >>> stack([torch.zeros(1, 2, 3, dtype=torch.uint8)] * 2, torch.Generator()).shape
        torch.Size([2, 1, 2, 3])
    """
    shapes = sorted({tuple(image.shape) for image in images})
    if len(shapes) > 1:
        raise UsageError(
            f'transform "none" needs images of the same size, got {shapes[0]} and {shapes[-1]}; '
            "use a transform that resizes, such as mlrc or base"
        )
    return torch.stack(list(images))
