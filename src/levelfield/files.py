"""Files that survive a kill: written as a whole or not at all, appended to line by line, locked.

Every room that writes a file does it with these functions, so that a full disk, a kill at the worst moment
and a second process are dealt with in one place.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levelfield.errors import RunError

# Ends a line whose writer was killed, so that readers can tell it from damage. No JSON text ends like this.
TORN_MARK = " #torn"
REMEDY = "make room or choose another --out"


@contextmanager
def disk_errors(path: Path, *, remedy: str = REMEDY) -> Iterator[None]:
    """Turn a full, read-only or missing disk into one line that names ``path`` and the ``remedy``."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror or error}; {remedy}, "
            "then give the same command again: finished work is kept"
        ) from error


def make_folder(folder: Path) -> None:
    """Make ``folder`` and its parents where they are missing, so that they outlast a power cut."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        flush_folder(made.parent)


def flush_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable: a renamed file is found under its new name after a power cut."""
    if os.name == "nt":  # Windows opens no folders, and flushes names by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write a file to; at the end the file takes the place of ``path`` in one step.

    A reader sees the old file or the new one, never half. If the block fails, the old file stays.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     target = Path(folder, "table.csv")
        ...     with replacing(target) as temporary:
        ...         _ = temporary.write_text("a,b\\n")
        ...     target.read_text()
        'a,b\\n'
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        yield temporary
        _flush_file(temporary)
        temporary.replace(path)
        flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes, *, remedy: str = REMEDY) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old file or the new one, never half."""
    with disk_errors(path, remedy=remedy), replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: Path, text: str, *, remedy: str = REMEDY) -> None:
    """Write ``text`` as UTF-8, atomically."""
    write_bytes(path, text.encode(), remedy=remedy)


def write_json(path: Path, value: Any, *, remedy: str = REMEDY) -> None:
    """Write ``value`` as indented JSON with sorted keys, atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n", remedy=remedy)


def read_json(path: Path) -> Any:
    """Read a JSON file; one that is missing, unreadable or damaged gives an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; restore that file") from error
    except ValueError as error:  # not JSON, or not UTF-8
        raise RunError(
            f"{path} is damaged ({error}); delete that file and give the same command again"
        ) from error


def append_line(path: Path, value: Any, *, remedy: str = REMEDY) -> None:
    """Append one JSON line and flush it to the disk.

    A line without its line end was cut short by a kill or a full disk. It is marked as torn first, so that
    the new line does not become part of it.
    """
    line = json.dumps(value, sort_keys=True, allow_nan=False).encode() + b"\n"
    with disk_errors(path, remedy=remedy):
        make_folder(path.parent)
        is_new = not path.exists()
        with path.open("a+b") as file:
            _lock(file.fileno())
            if not _ends_whole(file.fileno()):
                line = TORN_MARK.encode() + b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            flush_folder(path.parent)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON lines of ``path``, without those that were torn; none if there is no such file.

    Raises:
        RunError: A line is damaged in another way; it names the file and the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; restore that file") from error
    except UnicodeDecodeError as error:
        raise RunError(f"{path} is damaged ({error}); restore it from a backup") from error
    finished = text.split("\n")[:-1]  # what comes after the last line end was cut short
    return [
        _parse_line(path, number, line)
        for number, line in enumerate(finished, 1)
        if line and not line.endswith(TORN_MARK)
    ]


@contextmanager
def lock(path: Path, *, busy: str | None = None, remedy: str = REMEDY) -> Iterator[None]:
    """Hold the lock on ``path`` (a file, made if it is missing, or a folder that exists).

    The lock goes with the process, however it ends. Windows has no such locks; there it does nothing.

    Args:
        path: What to lock; all who want to keep out of each other's way name the same path.
        busy: What to say, as a RunError, if another process holds the lock; None waits for it.
        remedy: What to do if the lock file cannot be made.
    """
    with disk_errors(path, remedy=remedy):
        if path.is_dir():
            descriptor = os.open(path, os.O_RDONLY)
        else:
            make_folder(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            _lock(descriptor, wait=busy is None)
        except BlockingIOError as error:
            raise RunError(str(busy)) from error
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool = True) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _flush_file(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _ends_whole(descriptor: int) -> bool:
    """Whether a file is empty or its last line has a line end."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return True
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
    except ValueError as error:
        raise RunError(
            f"{path}, line {number} is damaged ({error}); remove that line and give the same command again"
        ) from error
    return value


def cache_folder() -> Path:
    """``LEVELFIELD_CACHE``, else the user's cache folder by the XDG rules; it may not exist yet."""
    if given := os.environ.get("LEVELFIELD_CACHE"):
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "levelfield"
