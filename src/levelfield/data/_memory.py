"""In-memory datasets: arrays of pixels and labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.data._content import hash_arrays
from levelfield.data._dataset import Dataset, Rows


class MemoryImages:
    """Images of one size, as a uint8 array of shape N x C x H x W.

    Example:
        >>> images = MemoryImages(np.zeros((5, 1, 4, 4), dtype=np.uint8))
        >>> len(images.select(np.array([3, 1]))), images.read(0).shape
        (2, torch.Size([1, 4, 4]))
    """

    def __init__(self, pixels: npt.NDArray[np.uint8]) -> None:
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1] not in {1, 3}:
            raise UsageError(
                f"images are {pixels.dtype} of shape {pixels.shape}; "
                "give uint8 of shape N x C x H x W with 1 or 3 channels"
            )
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def read(self, row: int) -> Tensor:
        """Return a copy of image ``row`` as a uint8 tensor C x H x W."""
        return torch.from_numpy(self._pixels[row].copy())

    def select(self, rows: Rows) -> MemoryImages:
        """Return a copy of these rows."""
        return MemoryImages(self._pixels[rows])


def from_arrays(
    name: str,
    pixels: npt.NDArray[np.uint8],
    labels: Sequence[int] | npt.NDArray[np.int64],
    class_names: Sequence[str],
    *,
    is_test: npt.NDArray[np.bool_] | None = None,
    is_validation: npt.NDArray[np.bool_] | None = None,
    roles: npt.NDArray[np.int8] | None = None,
    notes: Sequence[str] = (),
) -> Dataset:
    """Return an in-memory dataset; its fingerprint covers all pixels, labels, class names and the split.

    Args:
        name: Registered name of the dataset.
        pixels: uint8 array of shape N x C x H x W; gray (C = 1) or RGB (C = 3).
        labels: N class ids in 0..C-1, in class order.
        class_names: One name per class id.
        is_test: See :class:`Dataset`.
        is_validation: See :class:`Dataset`.
        roles: See :class:`Dataset`.
        notes: See :class:`Dataset`.

    Example:
        >>> pixels = np.zeros((4, 1, 8, 8), dtype=np.uint8)
        >>> dataset = from_arrays("blank", pixels, [0, 0, 1, 1], ["left", "right"])
        >>> len(dataset), dataset.num_classes, dataset.images.read(3).shape
        (4, 2, torch.Size([1, 8, 8]))
    """
    ids = np.asarray(labels, dtype=np.int64)
    digest = hashlib.sha256(repr((pixels.shape, tuple(class_names))).encode())
    for part in (pixels, ids, is_test, is_validation, roles):
        digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return Dataset(
        name=name,
        images=MemoryImages(pixels),
        labels=ids,
        class_names=tuple(class_names),
        fingerprint=digest.hexdigest(),
        is_test=is_test,
        is_validation=is_validation,
        roles=roles,
        notes=tuple(notes),
        digests=hash_arrays(pixels),
    )
