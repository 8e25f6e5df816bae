"""One file of features in shards, each with a checksum, and a manifest that is replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from levelfield.files import disk_errors, write_json

SHARD_ROWS = 512
BYTES_PER_VALUE = 4
REMEDY = "make room, or let LEVELFIELD_CACHE name another folder"


@dataclass(frozen=True)
class Shape:
    """The file holds views x rows x width numbers of 32 bits, in that order."""

    views: int
    rows: int
    width: int


class FeatureFile:
    """Features on disk; what is not there, or not what its checksum says, is ``missing``.

    Attributes:
        path: The file with the numbers and nothing else.
    """

    def __init__(self, home: Path, *, shape: Shape, about: Mapping[str, Any]) -> None:
        self.path = home / "features.f32"
        self._manifest = home / "manifest.json"
        self._shape = shape
        self._head = {"about": dict(about), "shape": asdict(shape), "shard_rows": SHARD_ROWS}
        self._checksums = self._read_checksums()

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
        """Write one shard of features (n x width): first the numbers, then their checksum."""
        data = features.numpy().astype("<f4").tobytes()
        with disk_errors(self.path, remedy=REMEDY):
            self._write_numbers(data, self._offset(view, start))
            self._checksums[_name(view, start)] = hashlib.sha256(data).hexdigest()
            self._write_manifest()

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
        expected = self._checksums.get(_name(view, start))
        if expected is None:
            return False
        size = (stop - start) * self._shape.width * BYTES_PER_VALUE
        data = os.pread(descriptor, size, self._offset(view, start))
        return hashlib.sha256(data).hexdigest() == expected

    def _offset(self, view: int, start: int) -> int:
        return (view * self._shape.rows + start) * self._shape.width * BYTES_PER_VALUE

    def _read_checksums(self) -> dict[str, str]:
        """The checksums of a manifest that is about these very features; a damaged one counts as none."""
        try:
            content = json.loads(self._manifest.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        if not isinstance(content, dict) or {key: content.get(key) for key in self._head} != self._head:
            return {}
        checksums = content.get("sha256")
        return dict(checksums) if isinstance(checksums, dict) else {}

    def _write_manifest(self) -> None:
        write_json(self._manifest, {**self._head, "sha256": self._checksums}, remedy=REMEDY)


def _name(view: int, start: int) -> str:
    return f"{view}:{start}"
