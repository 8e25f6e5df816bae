"""Content of image files: the SHA-256 of every file, computed once and remembered.

A digest is remembered by path, size, time of change, time of status change and inode. A file that differs
in one of them is read again. So a replaced image of the same size is noticed, and an unchanged dataset is
hashed once.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import RunError
from levelfield.core.files import cache_directory, write_bytes
from levelfield.core.hashing import hashing_progress

Digests = npt.NDArray[np.uint8]  # N x 32
Stamps = npt.NDArray[np.int64]  # N x 4: size, time of change, time of status change, inode

DIGEST_SIZE = 32
CHUNK = 64  # files per task
THREADS = 8  # reading a file waits for the disk; hashing runs outside Python's lock
BLOCK = 1 << 20
# A file changed at most this long before it was hashed may change again without a new time: file systems
# count time in steps, the longest of which is 2 seconds. Such a file is hashed at every start until then.
RECENT = 2_000_000_000
_NEVER = np.full(4, -1, dtype=np.int64)


@dataclass(frozen=True)
class FileContents:
    """Digest (N x 32) and stamp (N x 4) of each file; ``missing`` holds the rows without a file."""

    digests: Digests
    stamps: Stamps
    missing: tuple[int, ...]


def file_stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return the facts about a file that change when its content changes."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def hash_file(path: str | Path) -> bytes:
    """Return the SHA-256 digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a million Path objects take a second
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.digest()


def hash_arrays(arrays: Iterable[npt.NDArray[np.generic]]) -> Digests:
    """Return the SHA-256 digest of each array, with its shape and type.

    Example:
        >>> hash_arrays(np.zeros((2, 4, 4), dtype=np.uint8)).shape
        (2, 32)
    """
    found = [
        hashlib.sha256(
            f"{each.dtype.str} {each.shape}".encode() + np.ascontiguousarray(each).tobytes()
        ).digest()
        for each in arrays
    ]
    return as_digests(found)


def as_digests(found: Sequence[bytes]) -> Digests:
    """Return digests as one array (N x 32)."""
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(len(found), DIGEST_SIZE).copy()


def remember_digests(key: str, files: Iterable[str | Path], compute: Callable[[], Digests]) -> Digests:
    """Return ``compute()``, or the remembered result if all ``files`` that it depends on are unchanged.

    Args:
        key: Text that tells apart results from the same files.
        files: Files that the digests are computed from. Without any, nothing is remembered.
        compute: Function that computes the digests.
    """
    began, stamps = time.time_ns(), [(str(file), *file_stamp(Path(file).stat())) for file in files]
    if not stamps or any(max(stamp[2:4]) >= began - RECENT for stamp in stamps):
        return compute()
    name = hashlib.sha256(repr((key, stamps)).encode(errors="surrogateescape")).hexdigest()[:24]
    memory = cache_directory() / "contents" / f"{name}.npy"
    with suppress(OSError, ValueError, EOFError):
        kept: Digests = np.load(memory, allow_pickle=False)
        if kept.dtype == np.uint8 and kept.ndim == 2 and kept.shape[1] == DIGEST_SIZE:
            return kept
    digests = compute()
    packed = io.BytesIO()
    np.save(packed, digests)
    with suppress(RunError, OSError):  # a full or read-only disk
        write_bytes(memory, packed.getvalue())
    return digests


def hash_files(root: Path, paths: Sequence[str]) -> FileContents:
    """Return digests and stamps of files; unchanged files are not read.

    Args:
        root: Folder that relative paths start from.
        paths: N paths, relative to ``root`` or absolute.

    Raises:
        RunError: A file cannot be read.
    """
    base = root.absolute()
    memory = _Memory(base)
    known_stamps, known_digests = memory.recall(paths)
    digests = np.zeros((len(paths), DIGEST_SIZE), dtype=np.uint8)
    stamps = np.full((len(paths), 4), -1, dtype=np.int64)
    missing: list[int] = []
    counter = _Counter(len(paths))

    def work(start: int) -> None:
        hashed = 0
        for row in range(start, min(start + CHUNK, len(paths))):
            file = os.path.join(base, paths[row])  # noqa: PTH118 - as above
            try:
                status = os.stat(file)  # noqa: PTH116 - as above
            except (OSError, ValueError):
                missing.append(row)
                continue
            if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may never end
                raise RunError(f"{file} is not a regular file; leave it out of the dataset")
            stamps[row] = stamp = file_stamp(status)
            if known_stamps is not None and tuple(known_stamps[row].tolist()) == stamp:
                digests[row] = known_digests[row]  # type: ignore[index]  # known rows have digests
                continue
            try:
                digests[row] = np.frombuffer(hash_file(file), dtype=np.uint8)
            except OSError as error:
                raise RunError(
                    f"cannot read {file}: {error.strerror or error}; fix the file or remove it"
                ) from error
            hashed += 1
        counter.add(min(CHUNK, len(paths) - start), hashed)

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(work, range(0, len(paths), CHUNK)):
            pass
    if counter.hashed:
        memory.remember(paths, stamps, digests)
    return FileContents(digests, stamps, tuple(sorted(missing)))


class _Counter:
    """Counter of finished files that reports progress from several threads, once hashing has begun."""

    def __init__(self, total: int) -> None:
        self._lock, self._total, self._done, self.hashed = threading.Lock(), total, 0, 0

    def add(self, done: int, hashed: int) -> None:
        with self._lock:
            self._done += done
            self.hashed += hashed
            if self.hashed:
                hashing_progress(self._done, self._total)


class _Memory:
    """Digests of the files below one folder, in one file of the cache directory.

    It is only a memory: if it is missing, damaged or cannot be written, files are hashed again.
    """

    def __init__(self, base: Path) -> None:
        name = hashlib.sha256(os.fsencode(base)).hexdigest()[:24]
        self._file = cache_directory() / "contents" / f"{name}.npz"
        self._names: list[bytes] = []
        self._stamps: Stamps = np.empty((0, 4), dtype=np.int64)
        self._digests: Digests = np.empty((0, DIGEST_SIZE), dtype=np.uint8)
        self._began = time.time_ns()
        self._read()

    def _read(self) -> None:
        try:
            with np.load(self._file, allow_pickle=False) as found:  # checks the CRC of each array
                names = found["names"].tobytes().split(b"\0")
                stamps, digests = found["stamps"], found["digests"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return
        if stamps.shape == (len(names), 4) and digests.shape == (len(names), DIGEST_SIZE):
            self._names, self._stamps, self._digests = names, stamps, digests

    def recall(self, paths: Sequence[str]) -> tuple[Stamps | None, Digests | None]:
        """Return the remembered stamps and digests in the order of ``paths``; None if there are none."""
        if not self._names:
            return None, None
        wanted = [os.fsencode(path) for path in paths]
        if wanted == self._names:
            return self._stamps, self._digests
        place = {name: number for number, name in enumerate(self._names)}
        rows = np.array([place.get(name, -1) for name in wanted], dtype=np.int64)
        stamps = np.where((rows >= 0)[:, None], self._stamps[rows], _NEVER)
        return stamps, self._digests[rows]

    def remember(self, paths: Sequence[str], stamps: Stamps, digests: Digests) -> None:
        """Write the digests of these files, and keep those of other files if they are not too many."""
        settled = stamps[:, 1:3].max(axis=1, initial=0) < self._began - RECENT
        if not settled.any():
            return
        names = [os.fsencode(path) for path in paths]
        stamps = np.where(settled[:, None], stamps, _NEVER)
        present = set(names)
        others = [row for row, name in enumerate(self._names) if name not in present]
        if len(others) <= len(names):
            names += [self._names[row] for row in others]
            stamps = np.concatenate([stamps, self._stamps[others]])
            digests = np.concatenate([digests, self._digests[others]])
        packed = io.BytesIO()
        np.savez(
            packed,
            names=np.frombuffer(b"\0".join(names), dtype=np.uint8),
            stamps=stamps,
            digests=digests,
        )
        try:
            write_bytes(self._file, packed.getvalue())
        except (RunError, OSError):  # a full or read-only disk
            return
