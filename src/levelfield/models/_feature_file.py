"""One file of features in shards, each with a checksum, and a manifest that is replaced as a whole.

Another process may have the file mapped. So a shard that is sound is never written again, the file is never
cut, and a file whose manifest is lost is left to those who have it mapped: a new one takes its name.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from levelfield.errors import RunError
from levelfield.files import disk_errors, read_json, write_json
from levelfield.records import FeatureIdentity

SHARD_ROWS = 512
REMEDY = "make room, or let LEVELFIELD_CACHE name another folder"


@dataclass(frozen=True)
class Shape:
    """The file holds views x rows x item numbers, in that order.

    Attributes:
        views: How many views there are, the plain one included.
        rows: How many images there are.
        item: The shape of one image's features: (F,), or that of an activation.
        dtype: Of each number, "float32" or "float16".
    """

    views: int
    rows: int
    item: tuple[int, ...]
    dtype: str = "float32"

    @property
    def item_bytes(self) -> int:
        """The size of one image's features in one view."""
        return math.prod(self.item) * np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """The size of the whole file."""
        return self.views * self.rows * self.item_bytes


class FeatureFile:
    """Features on disk; what is not there, or not what its checksum says, is ``missing``.

    Open and write it only while you hold the folder's lock.

    Attributes:
        path: The file with the numbers and nothing else.
    """

    def __init__(self, folder: Path, *, shape: Shape, identity: FeatureIdentity) -> None:
        self.path = folder / f"features.{shape.dtype.replace('float', 'f')}"
        self._manifest = folder / "manifest.json"
        self._shape = shape
        self._contents = {
            "identity": identity.model_dump(mode="json"),
            "shape": {**asdict(shape), "item": list(shape.item)},
        }
        checksums = self._read_checksums()
        if checksums is None:
            with disk_errors(self.path, remedy=REMEDY):
                self.path.unlink(missing_ok=True)
        self._checksums = checksums or {}

    def missing(self) -> list[tuple[int, int, int]]:
        """The shards (view, first row, row after the last) that are still to be written, in order."""
        shards = [
            (view, start, min(start + SHARD_ROWS, self._shape.rows))
            for view in range(self._shape.views)
            for start in range(0, self._shape.rows, SHARD_ROWS)
        ]
        if not self.path.exists():
            return shards
        with disk_errors(self.path, remedy=REMEDY), self.path.open("rb") as file:
            return [shard for shard in shards if not self._is_sound(file.fileno(), *shard)]

    def write(self, view: int, start: int, features: Tensor) -> None:
        """Write one shard of features (n x item): first the numbers, then their checksum."""
        data = features.numpy().astype(np.dtype(self._shape.dtype).newbyteorder("<")).tobytes()
        with disk_errors(self.path, remedy=REMEDY):
            self._write_numbers(data, self._offset(view, start))
        self._checksums[_shard_name(view, start)] = hashlib.sha256(data).hexdigest()
        manifest = {**self._contents, "shard_rows": SHARD_ROWS, "sha256": self._checksums}
        write_json(self._manifest, manifest, remedy=REMEDY)

    def _write_numbers(self, data: bytes, offset: int) -> None:
        # Through the file, not through a map of it: a full disk is then an error and not a crash.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], offset + written)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _is_sound(self, descriptor: int, view: int, start: int, stop: int) -> bool:
        expected = self._checksums.get(_shard_name(view, start))
        if expected is None:
            return False
        size = (stop - start) * self._shape.item_bytes
        data = os.pread(descriptor, size, self._offset(view, start))
        return hashlib.sha256(data).hexdigest() == expected

    def _offset(self, view: int, start: int) -> int:
        return (view * self._shape.rows + start) * self._shape.item_bytes

    def _read_checksums(self) -> dict[str, str] | None:
        """The checksums of the shards; None if the manifest is missing or damaged.

        Raises:
            RunError: The folder is about other features than its name says.
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
                f"{self._manifest} is about other features than its folder's name says; "
                "delete that folder and give the same command again"
            )
        return dict(checksums)


def _shard_name(view: int, start: int) -> str:
    return f"{view}:{start}"
