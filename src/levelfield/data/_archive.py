"""Safe unpacking of untrusted archives: no paths outside the target, no links, no archive bombs."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from levelfield.core.errors import RunError

MAX_MEMBERS = 20_000_000
MAX_RATIO = 20  # images hardly compress; archive bombs grow a thousandfold
MIN_BUDGET = 1 << 28
MEMBER = 512  # bytes that a file or a folder takes at least, on the disk and in a tar archive
_PACKED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_SUFFIXES = (".tgz", ".tar.gz", ".tar", ".zip", ".tar.bz2", ".tar.xz")


class ArchiveError(RunError):
    """Raised for a damaged or unsafe archive."""


def is_archive(file: Path) -> bool:
    """Return whether the file name has the suffix of an archive.

    Example:
        >>> is_archive(Path("images.tgz")), is_archive(Path("list.txt"))
        (True, False)
    """
    return file.name.lower().endswith(_SUFFIXES)


def unpack(archive: Path, into: Path) -> list[Path]:
    """Unpack ``archive`` into the directory ``into`` and return the paths of the unpacked files.

    Every member is checked, then written to a temporary directory inside ``into``. The files are moved to
    their final paths when all of them are unpacked. A rejected archive leaves no files behind.

    Raises:
        ArchiveError: A member has a path outside the target, is a link or a device, the total size is more
            than ``MAX_RATIO`` times the archive's size, or the archive is damaged.
        RunError: The disk is full or read-only.
    """
    staging = into / f".unpacking-{archive.name}"
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        try:
            _unpack(archive, staging)
            return _move(staging, into)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno is None:  # gzip and lzma raise this for damaged data
            raise _damaged(archive, error) from error
        raise RunError(
            f"cannot unpack {archive.name} into {into}: {error.strerror}; free some space and try again"
        ) from error


def _damaged(archive: Path, error: Exception) -> ArchiveError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
    return ArchiveError(f"{archive} is damaged ({reason}); delete it and fetch it again")


def _unsafe(archive: Path, problem: str) -> ArchiveError:
    return ArchiveError(f"{archive} is not unpacked: {problem}; get it from another source")


def _unpack(archive: Path, staging: Path) -> None:
    budget = _budget(archive)
    for count, (name, size, source) in enumerate(_members(archive), 1):
        budget -= size + MEMBER * len(name.parts)
        if budget < 0 or count > MAX_MEMBERS:
            raise _too_large(archive)
        target = staging / name
        if target.exists():
            raise _unsafe(archive, f"it contains {name} twice")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            shutil.copyfileobj(source, stream)
            if stream.tell() != size:
                raise EOFError(f"{name} ends early")


def _budget(archive: Path) -> int:
    return max(MIN_BUDGET, MAX_RATIO * archive.stat().st_size)


def _too_large(archive: Path) -> ArchiveError:
    return ArchiveError(
        f"{archive} unpacks to more than {MAX_RATIO} times its size, as archive bombs do; "
        "get it from another source"
    )


class _BoundedTar(io.RawIOBase):
    """Content of a tar archive, up to a number of bytes: a header alone can claim gigabytes."""

    def __init__(self, archive: Path) -> None:
        self._archive, self._left = archive, _budget(archive)
        with archive.open("rb") as stream:
            start = stream.read(6)
        opener = next((each for magic, each in _PACKED.items() if start.startswith(magic)), open)
        self._stream: IO[bytes] = opener(archive, "rb")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; raise ArchiveError if there are too many."""
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._archive)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move on; what is skipped was not read, but a packed archive unpacks it."""
        before = self._stream.tell()
        self._left -= max(0, offset - before)
        if self._left < 0:
            raise _too_large(self._archive)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, int, IO[bytes]]]:
    """Yield name, size and content of each file in the archive."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                kind = entry.external_attr >> 28
                if kind not in {0, 4, 8}:  # Unix mode: unknown, directory, file
                    raise _unsafe(archive, f"{entry.filename} is a link or a device")
                name = _check_path(archive, entry.filename)
                if not entry.is_dir():
                    with packed.open(entry) as source:
                        yield name, entry.file_size, source
        return
    with _BoundedTar(archive) as content_stream, tarfile.open(fileobj=content_stream, mode="r:") as stream:
        for member in stream:
            if not (member.isreg() or member.isdir()):
                raise _unsafe(archive, f"{member.name} is a link or a device")
            name = _check_path(archive, member.name)
            content = stream.extractfile(member) if member.isreg() else None
            if content is not None:
                yield name, member.size, content
        while stream.fileobj is not None and stream.fileobj.read(1 << 20):
            pass  # read to the end: gzip stores its checksum there


def _check_path(archive: Path, name: str) -> PurePosixPath:
    """Return the path of a member; raise if it is outside the target on Unix or Windows."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name:
        raise _unsafe(archive, f"the path of member {name!r} is outside the target directory")
    return path


def _move(source: Path, target: Path) -> list[Path]:
    moved = []
    for file in sorted(source.rglob("*")):
        if file.is_file():
            destination = target / file.relative_to(source)
            destination.parent.mkdir(parents=True, exist_ok=True)
            moved.append(file.replace(destination))
    return moved
