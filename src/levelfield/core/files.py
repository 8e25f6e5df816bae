"""Safe file access: atomic writes, append-only JSON lines, and locks.

All packages of levelfield write files with these functions, so that full disks, killed processes and
concurrent processes are handled in one place.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from levelfield.core.errors import RunError
from levelfield.core.processes import Watchdog
from levelfield.core.strict_json import parse_json

# End mark of a line whose writer was killed; it distinguishes torn lines from damage. No JSON text ends like
# this.
TORN_MARK = " #torn"
MAX_BYTES = 256 * 1024 * 1024  # of a JSON file; the largest of a real experiment has a few megabytes
REMEDY = "make room or choose another --out"
READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def wrap_disk_errors(path: Path, *, remedy: str = REMEDY) -> Iterator[None]:
    """Convert OSError, such as a full disk, into a RunError that names ``path`` and the ``remedy``."""
    try:
        yield
    except OSError as error:
        if error.errno in READ_ONLY:  # there may be room
            remedy = f"make it writable, or {remedy.rpartition(' or ')[2]}"
        raise RunError(
            f"cannot write {path}: {error.strerror or error}; {remedy}, "
            "then give the same command again: finished work is kept"
        ) from error


def make_directory(directory: Path) -> None:
    """Create ``directory`` and its missing parents, and sync them to the disk."""
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_directory(made.parent)


def sync_directory(directory: Path) -> None:
    """Sync the file names in ``directory`` to the disk, so that renames survive a power failure."""
    if os.name == "nt":  # Windows cannot open directories, and syncs names itself
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path; at the end of the block the file written there replaces ``path`` atomically.

    Readers see the old file or the new file, never a part of it. If the block fails, the old file stays.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     target = Path(directory, "table.csv")
        ...     with atomic_write(target) as temporary:
        ...         _ = temporary.write_text("a,b\\n")
        ...     target.read_text()
        'a,b\\n'
    """
    make_directory(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        yield temporary
        _flush_file(temporary)
        temporary.replace(path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def has_living_writer(temporary: Path) -> bool:
    """Return True if the process that writes a file of :func:`atomic_write` may still run on this machine.

    Example:
        >>> has_living_writer(Path(f".table.csv.{os.getpid()}-1.tmp")), has_living_writer(Path(".x.0-1.tmp"))
        (True, False)
    """
    number = temporary.name.removesuffix(".tmp").rpartition(".")[2].partition("-")[0]
    if not number.isdigit() or int(number) == 0:
        return False
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def write_bytes(path: Path, data: bytes, *, remedy: str = REMEDY) -> None:
    """Write ``data`` to ``path`` atomically."""
    with wrap_disk_errors(path, remedy=remedy), atomic_write(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str, *, remedy: str = REMEDY) -> None:
    """Write ``text`` to ``path`` as UTF-8, atomically; bytes of file names that are not UTF-8 are escaped."""
    write_bytes(path, text.encode(errors="backslashreplace"), remedy=remedy)


def write_json(path: Path, value: Any, *, remedy: str = REMEDY) -> None:
    """Write ``value`` to ``path`` as indented JSON with sorted keys, atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n", remedy=remedy)


def read_json(path: Path, *, max_bytes: int | None = None) -> Any:
    """Return the content of a JSON file; raise RunError if it is missing, damaged or too large."""
    try:
        return parse_json(_read_bounded(path, max_bytes or MAX_BYTES))
    except RecursionError as error:
        raise RunError(f"{path} is damaged (nested too deeply); restore that file") from error
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; restore that file") from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise RunError(
            f"{path} is damaged ({error}); delete that file and give the same command again"
        ) from error


def _read_bounded(path: Path, max_bytes: int) -> str:
    """Return the text of a file that may come from a stranger; pipes and devices may never end."""
    check_is_file(path, max_bytes=max_bytes)
    return path.read_text(encoding="utf-8")


def read_text(path: Path, *, max_bytes: int | None = None) -> str:
    """Return the text of a file that may come from a stranger; raise RunError if it cannot be read."""
    try:
        return _read_bounded(path, max_bytes or MAX_BYTES)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; restore that file") from error
    except ValueError as error:  # not UTF-8
        raise RunError(f"{path} is damaged ({error}); restore that file") from error


def check_is_file(path: Path, *, max_bytes: int | None = None) -> None:
    """Raise RunError for a pipe, a device or a file that is too large, OSError if the file does not exist."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise RunError(f"{path} is a pipe or a device and not a file; restore that file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise RunError(
            f"{path} has {status.st_size:,} bytes, more than {max_bytes:,}; it is damaged, restore it"
        )


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 digest of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def append_line(path: Path, value: Any, *, remedy: str = REMEDY) -> None:
    """Append one JSON line and sync it to the disk.

    A last line without a line end was cut off by a killed process or a full disk. It is marked as torn
    first, so that the new line does not become part of it.
    """
    line = json.dumps(value, sort_keys=True, allow_nan=False).encode() + b"\n"
    with wrap_disk_errors(path, remedy=remedy):
        make_directory(path.parent)
        if path.is_symlink():  # records from elsewhere may link to a file of yours
            raise RunError(f"{path} is a link, and writing would change its target; replace it with a copy")
        is_new = not path.exists()
        with path.open("a+b") as file:
            _lock(file.fileno())
            if not _ends_with_newline(file.fileno()):
                line = TORN_MARK.encode() + b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_directory(path.parent)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON lines of ``path`` without torn lines; an empty list if the file does not exist.

    Raises:
        RunError: If a line is damaged in another way. The message names the file and the line.
    """
    try:
        text = _read_bounded(path, MAX_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; restore that file") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged ({error}); restore it from a backup") from error
    finished = text.split("\n")[:-1]  # text after the last line end is torn
    return [
        _parse_line(path, number, line)
        for number, line in enumerate(finished, 1)
        if line and not line.endswith(TORN_MARK)
    ]


@contextmanager
def lock(path: Path, *, busy: str | None = None, remedy: str = REMEDY) -> Iterator[None]:
    """Hold an exclusive lock on ``path``: a file, created if missing, or an existing directory.

    The lock is released when the process ends for any reason. On Windows this function does nothing.

    Args:
        path: File or directory to lock. Processes that exclude each other lock the same path.
        busy: Message of the RunError if another process holds the lock. None waits for the lock.
        remedy: Remedy for the error message if the lock file cannot be created.
    """
    with wrap_disk_errors(path, remedy=remedy):
        descriptor = os.open(path, os.O_RDONLY) if path.is_dir() else _open_lock_file(path)
    if descriptor is None:
        yield
        return
    try:
        try:
            _lock(descriptor, wait=False)
        except BlockingIOError as error:
            if busy is not None:
                raise RunError(busy) from error
            with Watchdog(partial(_say_who_waits, path)).running():
                _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool = True) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_lock_file(path: Path) -> int | None:
    """Return the descriptor of a lock file; None if it is missing in a read-only directory."""
    try:
        make_directory(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in READ_ONLY or not path.parent.is_dir():
            raise
        return os.open(path, os.O_RDONLY) if path.exists() else None


def is_locked(path: Path) -> bool:
    """Return True if another process holds the lock on ``path``, a file that may be missing."""
    try:
        with lock(path, busy="busy") if path.exists() else nullcontext():
            return False
    except RunError:
        return True


def require_directory(directory: Path) -> None:
    """Raise RunError if ``directory``, which this process has used before, was deleted.

    Writing would create it again with a part of its files, and no later command could use it.
    """
    if not directory.is_dir():
        raise RunError(
            f"{directory} was deleted while it was in use; restore it, or give the same command again to "
            "start from the beginning"
        )


def _say_who_waits(path: Path, seconds: float) -> None:
    logging.getLogger("levelfield").warning(
        "waiting for %s, which another process has locked for %d s or more", path, round(seconds)
    )


def _flush_file(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _ends_with_newline(descriptor: int) -> bool:
    """Return whether a file is empty or its last line has a line end."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = parse_json(line)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except (ValueError, RecursionError) as error:
        raise RunError(
            f"{path}, line {number} is damaged ({error}); remove that line and give the same command again"
        ) from error
    return value


def cache_directory() -> Path:
    """Return ``LEVELFIELD_CACHE``, else the XDG cache directory of the user; it may not exist yet."""
    if given := os.environ.get("LEVELFIELD_CACHE"):
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "levelfield"
