"""Appending to a store so that it survives a kill at any moment."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.data.store._format import IMAGES, INDEX, RECORD, Records, sizes

COMMIT_BYTES = 64 << 20
COMMIT_SECONDS = 5.0


class Writer:
    """Appends images to the unfinished store in ``path``.

    The pixels are on disk before the index says so; what a kill leaves behind the last record of the index
    is cut off when the writer is opened again. So a kill costs the few images since the last commit.

    Attributes:
        rows: The rows that the store held when the writer was opened.
        size: Bytes of pixels in the store.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._path = path
        self._images = os.open(path / IMAGES, flags, 0o644)
        self._index = os.open(path / INDEX, flags, 0o644)
        records = _sound_records((path / INDEX).read_bytes(), os.fstat(self._images).st_size)
        records = records[: _intact(records, path / IMAGES)].copy()
        self.rows = records["row"]
        self.size = int(sizes(records).sum())
        self._index_size = records.nbytes
        self._pending: list[tuple[int, int, int, int, int, int]] = []
        self._committed = self.size
        self._commit_at = time.monotonic() + COMMIT_SECONDS
        self._cut()

    def add(self, row: int, pixels: npt.NDArray[np.uint8]) -> None:
        """Append the pixels (H x W x C) of image ``row``."""
        data = pixels.tobytes()
        _write(self._images, data)
        self._pending.append((row, self.size, *pixels.shape, zlib.crc32(data)))
        self.size += len(data)
        if self.size - self._committed >= COMMIT_BYTES or time.monotonic() >= self._commit_at:
            self.commit()

    def commit(self) -> None:
        """Make everything that was added durable."""
        os.fsync(self._images)
        added = np.array(self._pending, dtype=RECORD).tobytes()
        _write(self._index, added)
        os.fsync(self._index)
        self._index_size += len(added)
        self._pending.clear()
        self._committed = self.size
        self._commit_at = time.monotonic() + COMMIT_SECONDS

    def index_sha256(self) -> str:
        """The checksum of the committed index."""
        return hashlib.sha256((self._path / INDEX).read_bytes()).hexdigest()

    def close(self) -> None:
        """Commit what can be committed: after a failed write, that is all but the last image."""
        with contextlib.suppress(OSError):
            self._cut()
            self.commit()
        os.close(self._images)
        os.close(self._index)

    def _cut(self) -> None:
        for file, length in ((self._images, self.size), (self._index, self._index_size)):
            os.ftruncate(file, length)
            os.lseek(file, length, os.SEEK_SET)


def _sound_records(raw: bytes, size: int) -> Records:
    """The leading records that follow on each other and whose pixels lie within ``size`` bytes."""
    records = np.frombuffer(raw[: len(raw) // RECORD.itemsize * RECORD.itemsize], dtype=RECORD)
    length = sizes(records)
    ends = np.cumsum(length)
    sound = (records["offset"] == ends - length) & (length > 0) & (ends <= size)
    return records[: len(records) if sound.all() else int(sound.argmin())]


def _intact(records: Records, images: Path) -> int:
    """How many leading records have the pixels of their checksum; a power cut may tear either."""
    with images.open("rb") as file:
        for number, (size, crc) in enumerate(zip(sizes(records), records["crc"], strict=True)):
            if zlib.crc32(file.read(int(size))) != crc:
                return number
    return len(records)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
