"""Images read from a store."""

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
from levelfield.data.store._format import (
    IMAGES,
    Records,
    damaged_store,
    image_bytes,
    read_index,
    read_manifest,
)


class PackedImages:
    """Images of a store, or a selection of them; reading an image copies it from the page cache.

    The object knows the offsets of its own images only. A selection of development rows holds no pixel and no
    offset of a test image, which prevents reading one by mistake. It is not access control: code that opens
    the store's file by its path can read everything.

    The object can be pickled: only the path and the index are sent, and the file is opened again.
    """

    def __init__(self, file: Path, index: Records) -> None:
        self._file = file
        self._index = index
        self._offsets = index["offset"].astype(np.int64)
        self._shapes = np.stack([index[side] for side in ("height", "width", "channels")], axis=1)
        self._sizes = image_bytes(index)
        self._descriptor: int | None = None

    @classmethod
    def open(cls, path: Path) -> PackedImages:
        """Return all images of the finished store at ``path``, in order of rows."""
        return cls(path / IMAGES, read_index(path, read_manifest(path)))

    def __len__(self) -> int:
        return len(self._index)

    def read(self, row: int) -> Tensor:
        """Return image ``row`` as a uint8 tensor of shape C x H x W.

        The tensor is a copy. It is channels-last in memory, as fast resampling needs it.
        """
        pixels = self._read_pixels(row).reshape(self._shapes[row])
        return torch.from_numpy(pixels).permute(2, 0, 1)

    def select(self, rows: Rows) -> PackedImages:
        """Return the images of these rows, in this order."""
        return PackedImages(self._file, self._index[rows])

    def find_damaged(self) -> list[int]:
        """Return the numbers of the images whose pixels do not match their checksum."""
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
    """Read bytes at ``offset`` into ``buffer`` and return their number; thread-safe where preadv exists."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [buffer], offset)
    with open(descriptor, "rb", buffering=0, closefd=False) as stream:  # Windows
        stream.seek(offset)
        return stream.readinto(buffer) or 0
