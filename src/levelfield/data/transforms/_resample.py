"""Antialiased bilinear resampling of uint8 images, as in PIL.

On the CPU every crop uses torch's native uint8 kernel. On a GPU the whole batch is two batched matrix
products. The results differ by at most one gray level.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F


def resize_shorter(image: Tensor, side: int) -> Tensor:
    """Return the image (C x H x W) resized so that its shorter side is ``side``, with its aspect ratio kept.

    Example:
        >>> resize_shorter(torch.zeros(3, 20, 30, dtype=torch.uint8), 10).shape
        torch.Size([3, 10, 15])
    """
    height, width = image.shape[-2:]
    shorter, longer = min(height, width), max(height, width)
    if shorter == side:
        return image
    other = int(side * longer / shorter)  # torchvision rounds down
    return _resize(image, (side, other) if height <= width else (other, side))


def crop_and_resize(images: Sequence[Tensor], boxes: Tensor, flips: Tensor, side: int) -> Tensor:
    """Crop a box from every image, resize it to ``side`` x ``side`` and flip some of them.

    Args:
        images: uint8 tensors C x H x W.
        boxes: int64, B x 4: top, left, height, width.
        flips: bool, B: True for crops to flip horizontally.
        side: Height and width of the result.

    Returns:
        uint8, B x C x side x side, channels last in memory.

    Example:
        >>> image = torch.arange(4, dtype=torch.uint8).reshape(1, 2, 2)
        >>> crop_and_resize([image], torch.tensor([[0, 0, 2, 2]]), torch.tensor([True]), 2).flatten().tolist()
        [1, 0, 3, 2]
    """
    shape = len(images), images[0].shape[0], side, side
    batch = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last)
    for slot, image, box, flip in zip(batch, images, boxes.tolist(), flips.tolist(), strict=True):
        crop = _resize(_crop(image, box), (side, side))
        slot.copy_(_flip(crop) if flip else crop)
    return batch


def crop_and_resize_by_matrices(
    images: Sequence[Tensor], boxes: Tensor, flips: Tensor, side: int, *, device: torch.device
) -> Tensor:
    """Compute :func:`crop_and_resize` for the whole batch at once on ``device``.

    Resampling is linear and separable. So crop, resize and flip are one matrix for the rows and one for the
    columns. Crops are padded to the same size; padding has weight zero.

    Example:
        >>> image = torch.arange(4, dtype=torch.uint8).reshape(1, 2, 2)
        >>> box, flip = torch.tensor([[0, 0, 2, 2]]), torch.tensor([True])
        >>> crop_and_resize_by_matrices([image], box, flip, 2, device=torch.device("cpu")).flatten().tolist()
        [1, 0, 3, 2]
    """
    height, width = boxes[:, 2:].amax(0).tolist()
    crops = torch.zeros(len(images), images[0].shape[0], height, width, dtype=torch.uint8)
    for slot, image, box in zip(crops, images, boxes.tolist(), strict=True):
        slot[:, : box[2], : box[3]] = _crop(image, box)
    if device.type == "cuda":
        crops = crops.pin_memory()
    pixels = crops.to(device, non_blocking=True).float()
    rows = _weights(boxes[:, 2].to(device), height, side)
    columns = _weights(boxes[:, 3].to(device), width, side)
    columns = torch.where(flips.to(device)[:, None, None], columns.flip(1), columns)
    resampled: Tensor = rows[:, None] @ pixels @ columns[:, None].mT
    return resampled.round().clamp(0, 255).to(torch.uint8).contiguous(memory_format=torch.channels_last)


def _crop(image: Tensor, box: Sequence[int]) -> Tensor:
    top, left, height, width = box
    return image[:, top : top + height, left : left + width]


def _resize(image: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(image.shape[-2:]) == size:
        return image
    # torch's vectorized uint8 kernel needs channels-last memory; a crop in another layout would be copied
    # plane by plane, at a third of the speed
    pixels = image[None].contiguous(memory_format=torch.channels_last)
    return F.interpolate(pixels, size=size, mode="bilinear", antialias=True)[0]


def _flip(image: Tensor) -> Tensor:
    # torch has a fast flip for channels-last batches only
    return image[None].contiguous(memory_format=torch.channels_last).flip(-1)[0]


def _weights(lengths: Tensor, longest: int, side: int) -> Tensor:
    """Return a matrix (side x longest) per crop that resamples its first ``length`` pixels to ``side``."""
    step = lengths.float()[:, None, None] / side
    reach = step.clamp(min=1)  # downscaling averages over all merged pixels
    centers = (torch.arange(side, device=lengths.device)[:, None] + 0.5) * step
    pixels = torch.arange(longest, device=lengths.device)
    weights = (1 - (pixels + 0.5 - centers).abs() / reach).clamp(min=0)
    weights = weights * (pixels < lengths[:, None, None])
    return weights / weights.sum(-1, keepdim=True)
