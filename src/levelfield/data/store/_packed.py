"""Reading from a store."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.data._dataset import Rows
from levelfield.data.store._format import IMAGES, Records, read_index, read_manifest, sizes


class PackedImages:
    """The images of a store, or some of them; reading one is a copy out of the page cache.

    It can be sent to another process: only the path and the index travel, the file is mapped anew.
    """

    def __init__(self, file: Path, index: Records) -> None:
        self._file = file
        self._index = index
        self._bounds = np.stack([index["offset"], index["offset"] + sizes(index)], axis=1)
        self._shapes = np.stack([index[side] for side in ("height", "width", "channels")], axis=1)
        self._mapped: npt.NDArray[np.uint8] | None = None

    @classmethod
    def open(cls, path: Path) -> PackedImages:
        """All images of the finished store at ``path``, in order of rows."""
        return cls(path / IMAGES, read_index(path, read_manifest(path)))

    def __len__(self) -> int:
        return len(self._index)

    def read(self, row: int) -> Tensor:
        """Image ``row`` as a uint8 tensor of shape C x H x W.

        It is the caller's own copy. In memory the channels of a pixel lie side by side, which is what the
        fast resampling of the transforms wants.
        """
        pixels = np.array(self._pixels(row)).reshape(self._shapes[row])
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def select(self, rows: Rows) -> PackedImages:
        """Just these images, in this order."""
        return PackedImages(self._file, self._index[rows])

    def damaged(self) -> list[int]:
        """The images whose pixels no longer have their checksum."""
        crcs = self._index["crc"]
        return [row for row in range(len(self)) if zlib.crc32(self._pixels(row).data) != crcs[row]]

    def _pixels(self, row: int) -> npt.NDArray[np.uint8]:
        if self._mapped is None:
            self._mapped = np.memmap(self._file, dtype=np.uint8, mode="r").view(np.ndarray)
        start, stop = self._bounds[row]
        return self._mapped[start:stop]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_mapped": None}
