"""Archive of an experiment: one file per kind of record. It is read in place and never written to.

Archives come from strangers. Names of records are keys of a table and never paths; every read is bounded;
nothing is unpickled; a damaged file is one clear error.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open

from levelfield.core.errors import RunError
from levelfield.core.strict_json import unique_names
from levelfield.records._models import Record, RecordName
from levelfield.records._parse import parse_record
from levelfield.records._record_files import (
    ARRAYS,
    Arrays,
    DirectoryFiles,
    Kind,
    RecordFiles,
    RecordT,
    has_pattern,
    kind_of,
)

MANIFEST_FILE = "archive.json"
SCORES_FILE = "class-scores.safetensors"
CLASS_NAMES_FILE = "class-names.json"
ARCHIVE_VERSION = 1
MAX_BYTES = 256 * 1024 * 1024  # of one file, uncompressed: 150,000 runs; a larger file is not an archive's
# Records shrink to a fortieth at most; a small file that grows further is made to fill the memory.
MAX_RATIO, SMALL = 100, 8 * 1024 * 1024
FEW_LISTS, LIST_BYTES = 1_000_000, 16  # a list takes 64 bytes of memory; records have one in 50 bytes of text
NEW_COPY = "get a new copy of the archive"


class ArchivedFile(Record):
    """File of an archive.

    Attributes:
        records: Number of its records, or of its arrays.
        sha256: SHA-256 of its content, uncompressed and with Unix line ends.
    """

    records: int
    sha256: str


class ArchiveManifest(Record):
    """Contents of an archive: ``archive.json``.

    Attributes:
        archive_version: Version of the format.
        files: Files by name.
        missing_runs: Number of runs that a trial or a rerun names and that were not on record when the
            archive was written.
    """

    archive_version: int
    files: dict[RecordName, ArchivedFile]
    missing_runs: int = Field(default=0, ge=0)


def lines_file(kind: Kind) -> str:
    """Return the file of the records of a kind, without the suffix of a compressed file."""
    return f"{kind}.jsonl"


def is_archive(root: Path) -> bool:
    """Return True if a directory is an archive, even if its manifest is lost."""
    name = lines_file("selections")
    return any((root / each).exists() for each in (MANIFEST_FILE, name, f"{name}.gz"))


def open_record_files(root: Path) -> RecordFiles:
    """Return the records of an experiment directory or of an archive."""
    return open_archive(root) if is_archive(root) else DirectoryFiles(root)


def open_archive(root: Path) -> ArchiveFiles:
    """Return the records of an archive; what was read before is kept until a file changes."""
    with os.scandir(root) as entries:
        found = [(entry.name, entry.stat()) for entry in entries if entry.is_file()]
    stamp = tuple(sorted((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in found))
    return _open_archive(str(root.absolute()), stamp)


def read_archive_manifest(root: Path) -> ArchiveManifest:
    """Return the contents of an archive; raise RunError if it is not one."""
    return _read_manifest(root / MANIFEST_FILE)


@lru_cache(maxsize=8)
def _open_archive(root: str, _: tuple[tuple[str, int, int, int], ...]) -> ArchiveFiles:
    return ArchiveFiles(Path(root))


def close_archives() -> None:
    """Close the files of all archives that were read: Windows does not rename a directory with open files."""
    _open_archive.cache_clear()


_CLASS_NAMES = TypeAdapter(dict[int, str])


class ArchiveFiles:
    """Records of an archive. A file is read when its first record is asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifest = _read_manifest(root / MANIFEST_FILE)
        self._tables: dict[Kind, dict[str, Any]] = {}
        self._scores: tuple[Any, dict[str, list[str]]] | None = None

    def exists(self, name: str) -> bool:
        """Return True if the archive has a record, or arrays, with this name."""
        if has_pattern(name, ARRAYS):
            return _array_prefix(name) in self._open_scores()[1]
        kind = kind_of(name)
        return kind is not None and name in self._table(kind)

    def read_json(self, name: str) -> Any:
        """Return the content of a record."""
        kind = kind_of(name)
        if kind is None or name not in self._table(kind):
            raise RunError(f"{self.root} has no record {name}; {NEW_COPY}")
        return self._table(kind)[name]

    def read(self, model: type[RecordT], name: str) -> RecordT:
        """Return a record."""
        return parse_record(model, self.read_json(name), f"{self.root}: {name}", remedy=NEW_COPY)

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all records of a kind, sorted."""
        return sorted(self._table(kind))

    def run_ids(self) -> list[str]:
        """Return the digests of all runs, sorted."""
        return [name.split("/")[1] for name in self.names("results")]

    def class_names(self) -> dict[int, str]:
        """Return the names of the test classes; empty in archives of earlier versions."""
        if CLASS_NAMES_FILE not in self.manifest.files:
            return {}
        file = self.root / CLASS_NAMES_FILE
        try:
            return _CLASS_NAMES.validate_json(read_bounded(file))
        except ValidationError as error:
            raise RunError(f"{file} is damaged; {NEW_COPY}") from error

    @contextmanager
    def open_arrays(self, name: str) -> Iterator[Arrays]:
        """Open the arrays of a rerun."""
        handle, keys = self._open_scores()
        prefix = _array_prefix(name)
        if prefix not in keys:
            raise RunError(f"{self.root} has no arrays {name}; {NEW_COPY}")
        yield _ArchivedArrays(self.root / SCORES_FILE, handle, prefix, keys[prefix])

    def check_content(self) -> Iterator[str]:
        """Yield a sentence for each file that is missing or differs from the manifest."""
        for name, entry in sorted(self.manifest.files.items()):
            if not (self.root / name).is_file():
                yield f"{name} is missing from the archive"
            elif content_digest(read_bounded(self.root / name), name) != entry.sha256:
                yield f"{name} was changed after the archive was written"

    def _table(self, kind: Kind) -> dict[str, Any]:
        if kind not in self._tables:
            self._tables[kind] = self._read_table(kind)
        return self._tables[kind]

    def _read_table(self, kind: Kind) -> dict[str, Any]:
        name = next((n for n in (lines_file(kind), f"{lines_file(kind)}.gz") if n in self.manifest.files), "")
        if not name:
            return {}
        file, found = self.root / name, {}
        content = read_bounded(file)
        if content.count(b"[") + content.count(b"{") > max(FEW_LISTS, len(content) // LIST_BYTES):
            raise RunError(f"{file} has more lists than records have; {NEW_COPY}")
        for number, line in enumerate(content.splitlines(), 1):
            try:
                key, value = _parse_line(line, kind)
                if key in found:
                    raise ValueError(f"{key} is there twice")
            except (ValueError, RecursionError) as error:
                raise RunError(f"{file}, line {number} is damaged ({error}); {NEW_COPY}") from error
            found[key] = value
        if len(found) != self.manifest.files[name].records:
            wanted = self.manifest.files[name].records
            raise RunError(f"{file} has {len(found)} of {wanted} records; {NEW_COPY}")
        return found

    def _open_scores(self) -> tuple[Any, dict[str, list[str]]]:
        """Return the open file of arrays, and the names of the arrays by rerun."""
        if self._scores is None:
            if SCORES_FILE not in self.manifest.files:
                return None, {}
            file = self.root / SCORES_FILE
            _check_is_file(file)
            try:
                handle: Any = safe_open(file, framework="numpy")
                names = list(handle.keys())
            except (SafetensorError, OSError, ValueError) as error:
                _damaged(file, error)
            keys: dict[str, list[str]] = {}
            for name in names:
                selection, _, rest = name.partition("/")
                rerun, _, key = rest.partition("/")
                keys.setdefault(f"{selection}/{rerun}", []).append(key)
            self._scores = handle, keys
        return self._scores


class _ArchivedArrays:
    """Arrays of one rerun of an archive."""

    def __init__(self, file: Path, handle: Any, prefix: str, keys: list[str]) -> None:
        self._file, self._handle, self._prefix, self._keys = file, handle, prefix, keys

    def keys(self) -> Iterable[str]:
        """Return the names of the arrays."""
        return self._keys

    def get_tensor(self, name: str) -> NDArray[Any]:
        """Return one array."""
        try:
            found: NDArray[Any] = self._handle.get_tensor(f"{self._prefix}/{name}")
        except (SafetensorError, OSError, TypeError, ValueError, KeyError) as error:
            raise RunError(f"{self._file} is damaged ({error}); {NEW_COPY}") from error
        return found


def _array_prefix(name: str) -> str:
    """Return the start of the names of a rerun's arrays: digest of the selection, and number.

    Example:
        >>> _array_prefix("confirmations/3f/rerun-00.safetensors")
        '3f/rerun-00'
    """
    return name.removeprefix("confirmations/").removesuffix(".safetensors")


def _read_manifest(file: Path) -> ArchiveManifest:
    try:
        value = json.loads(read_bounded(file), object_pairs_hook=unique_names)
        version = value["archive_version"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        _damaged(file, error)
    if version != ARCHIVE_VERSION:
        raise RunError(
            f"{file} is of version {version} of the format, this is version {ARCHIVE_VERSION}; read it with "
            "the version of levelfield that wrote it"
        )
    return parse_record(ArchiveManifest, value, file, remedy=NEW_COPY)


def _parse_line(line: bytes, kind: Kind) -> tuple[str, Any]:
    """Return the name and the content of the record in a line; raise ValueError if it is not one."""
    value = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=unique_names)
    if not isinstance(value, dict) or value.keys() != {"file", "record"}:
        raise ValueError("not an object with file and record")
    name, record = value["file"], value["record"]
    if not isinstance(name, str) or not isinstance(record, dict) or kind_of(name) != kind:
        raise ValueError(f"not a record of {kind}")
    return name, record


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def read_bounded(file: Path) -> bytes:
    """Return the content of a file of an archive, uncompressed; raise RunError if it is too large."""
    _check_is_file(file)
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            limit = min(MAX_BYTES, max(SMALL, MAX_RATIO * file.stat().st_size))
            data: bytes = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        _damaged(file, error)
    if len(data) > limit:
        raise RunError(
            f"{file} has more than {limit // 2**20} MB of content, which no archive has; {NEW_COPY}"
        )
    return data


def content_digest(data: bytes, name: str) -> str:
    """Return the SHA-256 of a file's content; line ends do not count, since git may have changed them."""
    plain = data if name.endswith(".safetensors") else data.replace(b"\r\n", b"\n")
    return hashlib.sha256(plain).hexdigest()


def _check_is_file(file: Path) -> None:
    if not file.is_file():  # missing, or a pipe or device that would never end
        raise RunError(f"{file} is missing; {NEW_COPY}")


def _damaged(file: Path, error: Exception) -> NoReturn:
    raise RunError(f"{file} is damaged ({error}); {NEW_COPY}") from error
