"""Feature file: shards with checksums, and a manifest that is replaced atomically.

Another process may have the file mapped. So valid shards are never written again and the file is never
truncated. A file without a manifest is unlinked, and a new file is created under its name.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from levelfield.core.errors import RunError
from levelfield.core.files import read_json, wrap_disk_errors, write_json
from levelfield.records import FeatureIdentity

SHARD_ROWS = 512
REMEDY = "free some space, or set LEVELFIELD_CACHE to another directory"


@dataclass(frozen=True)
class FeatureShape:
    """Shape of a feature file: views x rows x item, in that order.

    Attributes:
        views: Number of views, including view 0.
        rows: Number of images.
        item: Shape of one image's features: (F,), or the shape of an activation.
        dtype: "float32" or "float16".
    """

    views: int
    rows: int
    item: tuple[int, ...]
    dtype: str = "float32"

    @property
    def item_bytes(self) -> int:
        """Size of one image's features in one view, in bytes."""
        return math.prod(self.item) * np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """Size of the whole file, in bytes."""
        return self.views * self.rows * self.item_bytes


class FeatureFile:
    """Features on disk; shards that do not exist or do not match their checksum are ``missing``.

    Hold the lock of the directory while you open or write it.

    Attributes:
        path: File with the numbers.
    """

    def __init__(self, directory: Path, *, shape: FeatureShape, identity: FeatureIdentity) -> None:
        self.path = directory / f"features.{shape.dtype.replace('float', 'f')}"
        self._manifest = directory / "manifest.json"
        self._shape = shape
        self._contents = {
            "identity": identity.model_dump(mode="json"),
            "shape": {**asdict(shape), "item": list(shape.item)},
        }
        checksums = self._read_checksums()
        if checksums is None:
            with wrap_disk_errors(self.path, remedy=REMEDY):
                self.path.unlink(missing_ok=True)
        self._checksums = checksums or {}

    def missing(self) -> list[tuple[int, int, int]]:
        """Return the shards to write as (view, first row, row after the last), in order."""
        shards = [
            (view, start, min(start + SHARD_ROWS, self._shape.rows))
            for view in range(self._shape.views)
            for start in range(0, self._shape.rows, SHARD_ROWS)
        ]
        if not self.path.exists():
            return shards
        with wrap_disk_errors(self.path, remedy=REMEDY), self.path.open("rb") as file:
            return [shard for shard in shards if not self._is_valid(file.fileno(), *shard)]

    def write(self, view: int, start: int, features: Tensor) -> None:
        """Write one shard of features (n x item): first the numbers, then the checksum."""
        data = features.numpy().astype(np.dtype(self._shape.dtype).newbyteorder("<")).tobytes()
        with wrap_disk_errors(self.path, remedy=REMEDY):
            self._write_numbers(data, self._offset(view, start))
        self._checksums[_shard_name(view, start)] = hashlib.sha256(data).hexdigest()
        manifest = {**self._contents, "shard_rows": SHARD_ROWS, "sha256": self._checksums}
        write_json(self._manifest, manifest, remedy=REMEDY)

    def _write_numbers(self, data: bytes, offset: int) -> None:
        # Not through a memory map: a full disk would crash the process instead of raising.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], offset + written)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _is_valid(self, descriptor: int, view: int, start: int, stop: int) -> bool:
        expected = self._checksums.get(_shard_name(view, start))
        if expected is None:
            return False
        size = (stop - start) * self._shape.item_bytes
        data = os.pread(descriptor, size, self._offset(view, start))
        return hashlib.sha256(data).hexdigest() == expected

    def _offset(self, view: int, start: int) -> int:
        return (view * self._shape.rows + start) * self._shape.item_bytes

    def _read_checksums(self) -> dict[str, str] | None:
        """Return the checksums of the shards; None if the manifest is missing or damaged.

        Raises:
            RunError: The manifest describes other features than the directory name.
        """
        try:
            manifest = read_json(self._manifest)
        except RunError:
            return None
        if not isinstance(manifest, dict) or manifest.get("shard_rows") != SHARD_ROWS:
            return None
        checksums = manifest.get("sha256")
        if not isinstance(checksums, dict):
            return None
        if {key: manifest.get(key) for key in self._contents} != self._contents:
            raise RunError(
                f"{self._manifest} describes other features than the name of its directory; "
                "delete the directory and run the same command again"
            )
        return dict(checksums)


def _shard_name(view: int, start: int) -> str:
    return f"{view}:{start}"
