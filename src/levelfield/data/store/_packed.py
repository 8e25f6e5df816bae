"""Reading from a store."""

from __future__ import annotations

import os
import weakref
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelfield.data._dataset import Rows
from levelfield.data.store._format import IMAGES, Records, damaged_store, read_index, read_manifest, sizes


class PackedImages:
    """The images of a store, or some of them; reading one is a copy out of the page cache.

    The object holds the places of its own images and reads nothing else: a selection of development rows has
    no pixel of a test image in memory, and no number that leads to one. That keeps code from reading them by
    mistake. It is no lock: code that opens the store's file by its path reads what it likes.

    It can be sent to another process: only the path and the index travel, the file is opened anew.
    """

    def __init__(self, file: Path, index: Records) -> None:
        self._file = file
        self._index = index
        self._offsets = index["offset"].astype(np.int64)
        self._shapes = np.stack([index[side] for side in ("height", "width", "channels")], axis=1)
        self._sizes = sizes(index)
        self._descriptor: int | None = None

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
        pixels = self._read_pixels(row).reshape(self._shapes[row])
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def select(self, rows: Rows) -> PackedImages:
        """Just these images, in this order."""
        return PackedImages(self._file, self._index[rows])

    def damaged(self) -> list[int]:
        """The images whose pixels no longer have their checksum."""
        crcs = self._index["crc"]
        return [row for row in range(len(self)) if zlib.crc32(self._read_pixels(row).data) != crcs[row]]

    def _read_pixels(self, row: int) -> npt.NDArray[np.uint8]:
        pixels = np.empty(self._sizes[row], dtype=np.uint8)
        unread, offset = pixels.data, int(self._offsets[row])
        try:
            while unread:
                count = _read_at(self._open(), unread, offset)
                if count == 0:
                    raise damaged_store(self._file.parent, f"{self._file.name} ends within image {row}")
                unread, offset = unread[count:], offset + count
        except OSError as error:
            raise damaged_store(
                self._file.parent, f"{self._file.name} cannot be read ({error.strerror or error})"
            ) from error
        return pixels

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            weakref.finalize(self, os.close, self._descriptor)
        return self._descriptor

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_descriptor": None}


def _read_at(descriptor: int, buffer: memoryview, offset: int) -> int:
    """Fill ``buffer`` with the bytes at ``offset``, safely from several threads; how many there were."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    with open(descriptor, "rb", buffering=0, closefd=False) as stream:  # Windows
        stream.seek(offset)
        return stream.readinto(buffer) or 0
