"""Images that are held in memory, all of one size."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.data._dataset import Rows


class MemoryImages:
    """Images of one size as one uint8 array of shape N x C x H x W.

    Example:
        >>> images = MemoryImages(np.zeros((5, 1, 4, 4), dtype=np.uint8))
        >>> len(images.select(np.array([3, 1]))), images.read(0).shape
        (2, torch.Size([1, 4, 4]))
    """

    def __init__(self, pixels: npt.NDArray[np.uint8]) -> None:
        self._pixels = pixels

    def __len__(self) -> int:
        return len(self._pixels)

    def read(self, row: int) -> Tensor:
        """Image ``row`` as a uint8 tensor C x H x W, the caller's own copy."""
        return torch.from_numpy(self._pixels[row].copy())

    def select(self, rows: Rows) -> MemoryImages:
        """A copy of just these rows."""
        return MemoryImages(self._pixels[rows])
