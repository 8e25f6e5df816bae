"""Downloading one file: resumable, and checked before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from levelfield.errors import RunError, UsageError
from levelfield.files import flush_folder

Progress = Callable[[int, int], None]  # bytes there so far, and of the whole file (0 if unknown)
_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without a byte


class UnreachableError(RunError):
    """No address of a file gave it."""


class ChecksumError(RunError):
    """A file that is not the one that was asked for."""


_BROKEN = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)


class _RefusedError(Exception):
    """The server said no, and would say so again: another address may do."""


def download(
    urls: Sequence[str], target: Path, *, md5: str = "", progress: Progress = lambda done, total: None
) -> None:
    """Fetch ``target`` from the first of ``urls`` that has it.

    The bytes go to a file of the same name with ``.part``, which a second call goes on with; the target
    gets its name once it is whole and has the checksum ``md5``. Where none is known, nothing is resumed.

    Raises:
        UnreachableError: No server answered, or the connection broke (what came so far is kept).
        RunError: The disk is full, or not to be written to.
        ChecksumError: The whole file is not the right one; it is removed.
    """
    part = target.with_name(target.name + ".part")
    reasons = []
    for url in urls:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not md5:  # without a checksum nobody would notice that the two halves are of two editions
                part.unlink(missing_ok=True)
            _fetch(url, part, progress)
        except _RefusedError as error:
            reasons.append(f"{url}: {error}")
            continue
        except _BROKEN as error:
            reasons.append(f"{url}: {getattr(error, 'reason', None) or error}{_kept(part)}")
            continue
        except OSError as error:
            raise RunError(
                f"cannot write {part}: {error.strerror or error}{_kept(part)}; make room and try again"
            ) from error
        verify(part, md5)
        part.replace(target)
        flush_folder(target.parent)
        return
    raise UnreachableError(
        f"cannot fetch {target.name} ({'; '.join(reasons)}); give the command again to go on"
    )


def verify(file: Path, md5: str) -> None:
    """Remove ``file`` and raise ChecksumError if it does not have the checksum; nothing if none is known."""
    if md5 and (found := md5_of(file)) != md5:
        file.unlink()
        raise ChecksumError(
            f"{file.name} has the checksum {found} instead of {md5}, so it is damaged or another edition; "
            "it was removed: fetch it again"
        )


def md5_of(file: Path) -> str:
    """The MD5 checksum of a file: against accidents, as the datasets' publishers use it."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_text(url: str) -> str:
    """A small text file from the web."""
    try:
        with _open(url, 0) as response:
            return response.read(_CHUNK).decode(errors="replace")
    except (_RefusedError, OSError, http.client.HTTPException) as error:
        raise RunError(f"cannot fetch {url}: {error}; give the command again") from error


def _fetch(url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    with _open(url, have) as response:
        start, total = _range(response, have)
        _refuse_full_disk(part, total - start)
        with part.open("r+b" if part.exists() else "wb") as stream:
            stream.truncate(start)
            stream.seek(start)
            done = _copy(response, stream, start, total, progress)
            stream.flush()
            os.fsync(stream.fileno())
    if total and done != total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


def _open(url: str, have: int) -> http.client.HTTPResponse:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"only http and https addresses can be fetched, got {url}")
    # Some servers compress text on the way, which would break sizes and checksums.
    headers = {"User-Agent": "levelfield", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT
        )
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing lies beyond what we have: whole, or too much
            error.close()
            return _open_whole(url, have, error.headers.get("Content-Range", ""))
        raise _RefusedError(f"HTTP {error.code} {error.reason}") from error
    return response


def _open_whole(url: str, have: int, content_range: str) -> http.client.HTTPResponse:
    """The last byte again if the file is whole, so that its size is confirmed; else from the start."""
    whole = content_range.endswith(f"/{have}")
    return _open(url, have - 1 if whole else 0)


def _range(response: http.client.HTTPResponse, have: int) -> tuple[int, int]:
    """Where the answer starts, and how long the whole file is (0 if unknown)."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) > have:
            raise _RefusedError("the server answered with another range than was asked for")
        return int(match[1]), 0 if match[2] == "*" else int(match[2])
    return 0, int(response.headers.get("Content-Length") or 0)


def _copy(source: IO[bytes], target: IO[bytes], start: int, total: int, progress: Progress) -> int:
    done = start
    progress(done, total)
    while chunk := source.read(_CHUNK):
        target.write(chunk)
        done += len(chunk)
        progress(done, total)
    return done


def _refuse_full_disk(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise OSError(f"{needed / 1e9:.1f} GB are needed but only {free / 1e9:.1f} GB are free")


def _kept(part: Path) -> str:
    return f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
