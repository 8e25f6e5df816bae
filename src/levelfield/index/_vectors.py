"""The vectors of an index: float32 rows in files of equal size, mapped into memory, only ever appended to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.errors import RunError
from levelfield.files import disk_errors

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
SHARD_ROWS = 1 << 20  # of a new index: 512 MB at 128 numbers a row
REMEDY = "make room, or let -o name another folder"


class Vectors:
    """The rows 0..count-1 of an index.

    Args:
        folder: Where the files ``vectors-00000.f32`` ... lie.
        size: D, numbers per row.
        count: How many rows are there for certain; what lies beyond was cut short.
        shard_rows: How many rows a file has.
    """

    def __init__(self, folder: Path, *, size: int, count: int, shard_rows: int = SHARD_ROWS) -> None:
        self._folder = folder
        self._shard_rows = shard_rows
        self.size = size
        self.count = count
        self._mapped: dict[int, Floats] = {}

    def shards(self, first: int = 0) -> Iterator[tuple[int, Floats]]:
        """The rows from ``first`` on, a part at a time (n x D), each with the number of its first row."""
        while first < self.count:
            number, offset = divmod(first, self._shard_rows)
            stop = min(self._shard_rows, self.count - number * self._shard_rows)
            yield first, self._shard(number)[offset:stop]
            first = number * self._shard_rows + stop

    def take(self, rows: Rows) -> Floats:
        """Some rows (n x D), in this order, as a copy."""
        if not len(rows):
            return np.empty((0, self.size), dtype=np.float32)
        if self.count <= self._shard_rows:
            return np.take(self._shard(0), rows, axis=0)
        found = np.empty((len(rows), self.size), dtype=np.float32)
        numbers = rows // self._shard_rows
        for number in range(-(-self.count // self._shard_rows)):
            here = np.flatnonzero(numbers == number)
            found[here] = np.take(self._shard(number), rows[here] - number * self._shard_rows, axis=0)
        return found

    def append(self, vectors: Floats) -> None:
        """Write rows (n x D) after the last one and flush them to the disk.

        They count only from when the catalogue names them; a writer that is killed before that leaves bytes
        that the next one writes over.
        """
        done = 0
        while done < len(vectors):
            number, offset = divmod(self.count + done, self._shard_rows)
            part = vectors[done : done + self._shard_rows - offset]
            self._write(self._file(number), np.ascontiguousarray(part, dtype="<f4"), offset)
            self._mapped.pop(number, None)  # the file has grown
            done += len(part)
        self.count += len(vectors)

    def _write(self, file: Path, part: Floats, offset: int) -> None:
        # Through the file, not through a map of it: a full disk is then an error and not a crash.
        data, place, written = part.tobytes(), offset * self.size * 4, 0
        with disk_errors(file, remedy=REMEDY):
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o666)
            try:
                while written < len(data):
                    written += os.pwrite(descriptor, data[written:], place + written)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _shard(self, number: int) -> Floats:
        if number not in self._mapped:
            file = self._file(number)
            wanted = min(self._shard_rows, self.count - number * self._shard_rows)
            try:
                present = file.stat().st_size // (self.size * 4)
                if present < wanted:
                    raise RunError(
                        f"{file} is cut short ({present} rows instead of {wanted}); restore it, or delete "
                        "the index and make it again"
                    )
                mapped = np.memmap(file, dtype="<f4", mode="r", shape=(present, self.size))
            except OSError as error:
                raise RunError(
                    f"cannot read {file}: {error.strerror or error}; restore it, or make the index again"
                ) from error
            self._mapped[number] = mapped.view(np.ndarray)
        return self._mapped[number]

    def _file(self, number: int) -> Path:
        return self._folder / f"vectors-{number:05d}.f32"
