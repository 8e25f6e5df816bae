"""Records by name. The name of a record is the path of its file in an experiment directory.

An experiment directory has one file per record (:class:`DirectoryFiles`). An archive has one file per kind of
record (``_archive_files.py``) and the same names, so that readers of records do not know the difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from numpy.typing import NDArray
from pydantic import BaseModel

from levelfield.core import files
from levelfield.records._arrays import open_arrays
from levelfield.records._parse import read_record

RecordT = TypeVar("RecordT", bound=BaseModel)
Kind = Literal["searches", "trials", "selections", "reruns", "specs", "results", "provenance"]

# Names of the records of each kind, as a pattern. Kinds of runs come last.
KINDS: dict[Kind, str] = {
    "searches": "searches/*/search.json",
    "trials": "searches/*/trial-*.json",
    "selections": "selections/*.json",
    "reruns": "confirmations/*/rerun-*.json",
    "specs": "runs/*/spec.json",
    "results": "runs/*/result.json",
    "provenance": "runs/*/provenance.json",
}
ARRAYS = "confirmations/*/rerun-*.safetensors"


def kind_of(name: str) -> Kind | None:
    """Return the kind of the record with this name; None if no record has such a name.

    Example:
        >>> kind_of("searches/3f/trial-0001.json"), kind_of("searches/../trial-0001.json")
        ('trials', None)
    """
    return next((kind for kind, pattern in KINDS.items() if has_pattern(name, pattern)), None)


def has_pattern(name: str, pattern: str) -> bool:
    """Return True if a name has this pattern, part by part, and does not lead out of its directory."""
    parts, wanted = name.split("/"), pattern.split("/")
    if len(parts) != len(wanted) or any(part in ("", ".", "..") or set(part) & set("\\\0") for part in parts):
        return False
    return all(fnmatchcase(part, want) for part, want in zip(parts, wanted, strict=True))


class Arrays(Protocol):
    """Arrays of one rerun, read one by one."""

    def keys(self) -> Iterable[str]:
        """Return the names of the arrays."""

    def get_tensor(self, name: str) -> NDArray[Any]:
        """Return one array."""


class RecordFiles(Protocol):
    """Records of one experiment by name, for reading."""

    def exists(self, name: str) -> bool:
        """Return True if there is a record with this name."""

    def read_json(self, name: str) -> Any:
        """Return the content of a record; raise RunError if it is missing or damaged."""

    def read(self, model: type[RecordT], name: str) -> RecordT:
        """Return a record; raise RunError if it is missing, damaged or of another version."""

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all records of a kind, sorted."""

    def run_ids(self) -> list[str]:
        """Return the digests of all runs, sorted."""

    def open_arrays(self, name: str) -> AbstractContextManager[Arrays]:
        """Open the arrays of a rerun; raise RunError if they are damaged."""


@dataclass(frozen=True)
class RerunArrays:
    """Arrays of one rerun, by the name of its file.

    Attributes:
        records: Records that hold them.
        name: Name of the file.
    """

    records: RecordFiles
    name: str

    def open(self) -> AbstractContextManager[Arrays]:
        """Open the arrays; raise RunError if they are damaged."""
        return self.records.open_arrays(self.name)


class DirectoryFiles:
    """Records of an experiment directory, one file each."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def exists(self, name: str) -> bool:
        """Return True if the file exists."""
        return (self.root / name).exists()

    def read_json(self, name: str) -> Any:
        """Return the content of a file."""
        return files.read_json(self.root / name)

    def read(self, model: type[RecordT], name: str) -> RecordT:
        """Return the record in a file."""
        return read_record(model, self.root / name)

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all files of a kind, sorted."""
        return sorted(file.relative_to(self.root).as_posix() for file in self.root.glob(KINDS[kind]))

    def run_ids(self) -> list[str]:
        """Return the digests of all runs, also of those that have begun only."""
        parent = self.root / "runs"
        return sorted(path.name for path in parent.iterdir()) if parent.exists() else []

    def open_arrays(self, name: str) -> AbstractContextManager[Arrays]:
        """Open a file of arrays."""
        return open_arrays(self.root / name)
