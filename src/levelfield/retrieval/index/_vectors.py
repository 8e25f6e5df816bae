"""Vectors of an index: append-only float32 rows in memory-mapped files of equal size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import RunError
from levelfield.core.files import wrap_disk_errors

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
SHARD_ROWS = 1 << 20  # default of a new index: 512 MB per file at D = 128
REMEDY = "free disk space, or choose another directory with -o"


class Vectors:
    """Rows 0..count-1 of an index.

    Args:
        directory: Directory of the files ``vectors-00000.f32`` ...
        size: Vector size D.
        count: Number of committed rows; bytes beyond them come from an interrupted writer.
        shard_rows: Number of rows per file.
    """

    def __init__(self, directory: Path, *, size: int, count: int, shard_rows: int = SHARD_ROWS) -> None:
        self._directory = directory
        self._shard_rows = shard_rows
        self.size = size
        self.count = count
        self._mapped: dict[int, Floats] = {}

    def shards(self, first: int = 0) -> Iterator[tuple[int, Floats]]:
        """Yield the rows from ``first`` on, one file at a time: the first row number and the rows (n x D)."""
        while first < self.count:
            number, offset = divmod(first, self._shard_rows)
            stop = min(self._shard_rows, self.count - number * self._shard_rows)
            yield first, self._shard(number)[offset:stop]
            first = number * self._shard_rows + stop

    def take(self, rows: Rows) -> Floats:
        """Return a copy of these rows (n x D), in this order."""
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
        """Append rows (n x D) and flush them to the disk.

        The rows count only once the catalog lists them. The next writer overwrites the bytes of a writer that
        was killed before that.
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
        # Written through the file and not through a memory map: a full disk then raises an error, no crash.
        data, place, written = part.tobytes(), offset * self.size * 4, 0
        with wrap_disk_errors(file, remedy=REMEDY):
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
                        f"{file} is truncated ({present} rows instead of {wanted}); restore it, or delete "
                        "the index and create it again"
                    )
                mapped = np.memmap(file, dtype="<f4", mode="r", shape=(present, self.size))
            except OSError as error:
                raise RunError(
                    f"cannot read {file}: {error.strerror or error}; restore it, or create the index again"
                ) from error
            self._mapped[number] = mapped.view(np.ndarray)
        return self._mapped[number]

    def _file(self, number: int) -> Path:
        return self._directory / f"vectors-{number:05d}.f32"
