"""Crash-safe appending to a store."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.data.store._format import IMAGES, INDEX, RECORD, Records, image_bytes

COMMIT_BYTES = 64 << 20
COMMIT_SECONDS = 5.0


class StoreWriter:
    """Writer that appends images to the unfinished store in ``path``.

    Pixels are flushed to disk before their index records. Opening a writer truncates bytes after the last
    index record. So a killed process loses only the images since the last commit.

    Attributes:
        rows: Rows in the store when the writer was opened.
        size: Size of the pixels in the store, in bytes.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._path = path
        self._images = os.open(path / IMAGES, flags, 0o644)
        self._index = os.open(path / INDEX, flags, 0o644)
        records = _valid_records((path / INDEX).read_bytes(), os.fstat(self._images).st_size)
        records = records[: _count_intact(records, path / IMAGES)].copy()
        self.rows = records["row"]
        self.size = int(image_bytes(records).sum())
        self._index_size = records.nbytes
        self._pending: list[tuple[int, int, int, int, int, int]] = []
        self._committed = self.size
        self._commit_at = time.monotonic() + COMMIT_SECONDS
        self._truncate()

    def add(self, row: int, pixels: npt.NDArray[np.uint8]) -> None:
        """Append the pixels (H x W x C) of image ``row``."""
        data = pixels.tobytes()
        _write(self._images, data)
        self._pending.append((row, self.size, *pixels.shape, zlib.crc32(data)))
        self.size += len(data)
        if self.size - self._committed >= COMMIT_BYTES or time.monotonic() >= self._commit_at:
            self.commit()

    def commit(self) -> None:
        """Flush all added images and their index records to disk."""
        os.fsync(self._images)
        added = np.array(self._pending, dtype=RECORD).tobytes()
        _write(self._index, added)
        os.fsync(self._index)
        self._index_size += len(added)
        self._pending.clear()
        self._committed = self.size
        self._commit_at = time.monotonic() + COMMIT_SECONDS

    def index_sha256(self) -> str:
        """Return the checksum of the committed index."""
        return hashlib.sha256((self._path / INDEX).read_bytes()).hexdigest()

    def close(self) -> None:
        """Commit and close; after a failed write, everything but the last image is committed."""
        with contextlib.suppress(OSError):
            self._truncate()
            self.commit()
        os.close(self._images)
        os.close(self._index)

    def _truncate(self) -> None:
        for file, length in ((self._images, self.size), (self._index, self._index_size)):
            os.ftruncate(file, length)
            os.lseek(file, length, os.SEEK_SET)


def _valid_records(raw: bytes, size: int) -> Records:
    """Return the leading records that are contiguous and whose pixels are within ``size`` bytes."""
    records = np.frombuffer(raw[: len(raw) // RECORD.itemsize * RECORD.itemsize], dtype=RECORD)
    length = image_bytes(records)
    ends = np.cumsum(length)
    valid = (records["offset"] == ends - length) & (length > 0) & (ends <= size)
    return records[: len(records) if valid.all() else int(valid.argmin())]


def _count_intact(records: Records, images: Path) -> int:
    """Return the number of leading records whose pixels match their checksum."""
    with images.open("rb") as file:
        for number, (size, crc) in enumerate(zip(image_bytes(records), records["crc"], strict=True)):
            if zlib.crc32(file.read(int(size))) != crc:
                return number
    return len(records)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
