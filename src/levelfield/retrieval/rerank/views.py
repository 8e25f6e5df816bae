"""Test-time views: the sum of embeddings of an image at several scales and mirrored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError


def embed_views(
    network: Callable[[Tensor], Tensor],
    images: Tensor,
    *,
    scales: Sequence[float] = (1.0,),
    flip: bool = False,
) -> Tensor:
    """Return unit vectors (B x D): per image, the normalized sum of the unit vectors of its views.

    Args:
        network: Function from images (B x C x h x w) to vectors (B x D).
        images: uint8, or floats in 0..1, B x C x H x W.
        scales: Scale factors of height and width, such as (1, 0.7071, 1.4142).
        flip: If true, every scale is also embedded mirrored.

    Example:
        >>> mean_color = lambda images: images.float().mean((2, 3))
        >>> embed_views(mean_color, torch.ones(1, 2, 4, 4), scales=(1.0, 0.5), flip=True)
        tensor([[0.7071, 0.7071]])
    """
    total: Tensor | None = None
    for view in image_views(images, scales=scales, flip=flip):
        vectors = F.normalize(network(view), dim=1)
        total = vectors if total is None else total + vectors
    assert total is not None
    return F.normalize(total, dim=1)


def image_views(images: Tensor, *, scales: Sequence[float] = (1.0,), flip: bool = False) -> Iterator[Tensor]:
    """Yield the views of a batch of images, one batch per view; arguments as in :func:`embed_views`.

    Example:
        >>> [tuple(view.shape) for view in image_views(torch.ones(1, 3, 4, 4), scales=(1.0, 0.5))]
        [(1, 3, 4, 4), (1, 3, 2, 2)]
    """
    if not scales or min(scales) <= 0:
        raise UsageError(f"the scales of views are {tuple(scales)}; give at least one, each above 0")
    for scale in scales:
        view = images if scale == 1 else _resize(images, scale)
        yield view
        if flip:
            yield view.flip(-1)


def _resize(images: Tensor, scale: float) -> Tensor:
    size = [max(1, round(side * scale)) for side in images.shape[-2:]]
    # torch's uint8 kernel for antialiased resampling needs channels-last memory
    pixels = images.contiguous(memory_format=torch.channels_last)
    return F.interpolate(pixels, size=size, mode="bilinear", antialias=True)
