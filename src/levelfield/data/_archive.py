"""Unpacking an archive that may be hostile: nothing outside the folder, no links, no bombs."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from levelfield.errors import RunError

MAX_MEMBERS = 20_000_000
MAX_RATIO = 20  # images hardly shrink in an archive; a bomb grows a thousandfold
MIN_BUDGET = 1 << 28
_SUFFIXES = (".tgz", ".tar.gz", ".tar", ".zip", ".tar.bz2", ".tar.xz")


class ArchiveError(RunError):
    """An archive that is damaged, or that must not be unpacked."""


def is_archive(file: Path) -> bool:
    """Whether the name is that of an archive.

    Example:
        >>> is_archive(Path("images.tgz")), is_archive(Path("list.txt"))
        (True, False)
    """
    return file.name.lower().endswith(_SUFFIXES)


def unpack(archive: Path, into: Path) -> list[Path]:
    """Unpack ``archive`` into the folder ``into`` and return where its files are now.

    Every member is checked before it is written, into a folder beside ``into``; only when all of them are
    there are they moved to their places. A refused archive leaves nothing behind.

    Raises:
        ArchiveError: A member leads out of the folder, is a link or a device, the whole would be larger than
            an archive of this size can honestly be, or the archive is damaged.
        RunError: The disk is full, or not to be written to.
    """
    waiting = into / f".unpacking-{archive.name}"
    try:
        shutil.rmtree(waiting, ignore_errors=True)
        waiting.mkdir(parents=True)
        try:
            _unpack(archive, waiting)
            return _move(waiting, into)
        finally:
            shutil.rmtree(waiting, ignore_errors=True)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno is None:  # gzip's and lzma's way of saying that the data are damaged
            raise _damaged(archive, error) from error
        raise RunError(
            f"cannot unpack {archive.name} into {into}: {error.strerror}; make room and try again"
        ) from error


def _damaged(archive: Path, error: Exception) -> ArchiveError:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
    return ArchiveError(f"{archive} is damaged ({reason}); remove it and fetch it again")


def _unpack(archive: Path, waiting: Path) -> None:
    budget = max(MIN_BUDGET, MAX_RATIO * archive.stat().st_size)
    for count, (name, size, source) in enumerate(_members(archive), 1):
        budget -= size
        if budget < 0 or count > MAX_MEMBERS:
            raise ArchiveError(
                f"{archive} unpacks to more than {MAX_RATIO} times its size; refused as a bomb"
            )
        target = waiting / name
        if target.exists():
            raise ArchiveError(f"{archive} holds {name} twice; refused")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            shutil.copyfileobj(source, stream)
            if stream.tell() != size:
                raise EOFError(f"{name} ends early")


def _members(archive: Path) -> Iterator[tuple[PurePosixPath, int, IO[bytes]]]:
    """Name, size and content of each file; folders are made as they are needed."""
    if archive.name.lower().endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                kind = entry.external_attr >> 28
                if kind not in {0, 4, 8}:  # by the Unix mode: unknown, folder, file
                    raise ArchiveError(f"{archive}: {entry.filename} is a link or a device; refused")
                name = _safe(archive, entry.filename)
                if not entry.is_dir():
                    with packed.open(entry) as source:
                        yield name, entry.file_size, source
        return
    with tarfile.open(archive) as stream:
        for member in stream:
            if not (member.isreg() or member.isdir()):
                raise ArchiveError(f"{archive}: {member.name} is a link or a device; refused")
            name = _safe(archive, member.name)
            content = stream.extractfile(member) if member.isreg() else None
            if content is not None:
                yield name, member.size, content
        while stream.fileobj is not None and stream.fileobj.read(1 << 20):
            pass  # to the very end, where gzip keeps its checksum


def _safe(archive: Path, name: str) -> PurePosixPath:
    """The member's path if it stays inside the folder; backslashes and drives count, as on Windows."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name:
        raise ArchiveError(f"{archive}: the member {name!r} leads out of the folder; refused")
    return path


def _move(source: Path, target: Path) -> list[Path]:
    moved = []
    for file in sorted(source.rglob("*")):
        if file.is_file():
            destination = target / file.relative_to(source)
            destination.parent.mkdir(parents=True, exist_ok=True)
            moved.append(file.replace(destination))
    return moved
