"""Resumable download of one file, with a checksum check before the final rename."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import sync_directory

Progress = Callable[[int, int], None]  # bytes downloaded, total bytes (0 if unknown)
_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds without data
_SLOWEST = 100  # bytes per second, on the mean of this time


class UnreachableError(RunError):
    """Raised if no address of a file could be downloaded."""


class ChecksumError(RunError):
    """Raised if a downloaded file does not match its checksum."""


_CONNECTION_ERRORS = (
    urllib.error.URLError,
    http.client.HTTPException,
    TimeoutError,
    ConnectionError,
    ssl.SSLError,
)


class _RefusedError(Exception):
    """Permanent refusal by a server; the next address is tried."""


def download(
    urls: Sequence[str], target: Path, *, md5: str = "", progress: Progress = lambda done, total: None
) -> None:
    """Download ``target`` from the first of ``urls`` that works.

    Data are written to a file with the suffix ``.part``, which a later call resumes. The file is renamed when
    it is complete and matches ``md5``. Without ``md5`` a download starts again from the beginning.

    Raises:
        UnreachableError: No server answered, or the connection broke; the partial file is kept.
        RunError: The disk is full or read-only.
        ChecksumError: The file does not match ``md5``; it is deleted.
    """
    part = target.with_name(target.name + ".part")
    reasons = []
    for url in urls:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not md5:  # a resumed file could mix two editions, unnoticed without a checksum
                part.unlink(missing_ok=True)
            _fetch(url, part, progress)
        except _RefusedError as error:
            reasons.append(f"{url}: {error}")
            continue
        except _CONNECTION_ERRORS as error:
            reasons.append(f"{url}: {getattr(error, 'reason', None) or error}{_kept_size(part)}")
            continue
        except OSError as error:
            raise RunError(
                f"cannot write {part}: {error.strerror or error}{_kept_size(part)}; "
                "free some space and try again"
            ) from error
        verify(part, md5)
        part.replace(target)
        sync_directory(target.parent)
        return
    raise UnreachableError(
        f"cannot fetch {target.name} ({'; '.join(reasons)}); run the command again to resume"
    )


def verify(file: Path, md5: str) -> None:
    """Delete ``file`` and raise ChecksumError if it does not match ``md5``; an empty ``md5`` matches."""
    if md5 and (found := md5_of(file)) != md5:
        file.unlink()
        raise ChecksumError(
            f"{file.name} has the checksum {found} instead of {md5}, so it is damaged or another edition; "
            "it was deleted: fetch it again"
        )


def md5_of(file: Path) -> str:
    """Return the MD5 checksum of a file; it detects accidental damage, not tampering."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_text(url: str) -> str:
    """Return the content of a small text file on the web."""
    try:
        with _open(url, 0) as response:
            return response.read(_CHUNK).decode(errors="replace")
    except (_RefusedError, OSError, http.client.HTTPException) as error:
        raise RunError(f"cannot fetch {url}: {error}; check the network and run the command again") from error


def _fetch(url: str, part: Path, progress: Progress) -> None:
    have = part.stat().st_size if part.exists() else 0
    with _open(url, have) as response:
        start, total = _range(response, have)
        _check_disk_space(part, total - start)
        with part.open("r+b" if part.exists() else "wb") as stream:
            stream.truncate(start)
            stream.seek(start)
            done = _copy(response, stream, start, total, progress)
            stream.flush()
            os.fsync(stream.fileno())
    if total and done != total:
        raise ConnectionError(f"the connection ended after {done:,} of {total:,} bytes")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https addresses, but not from https to http."""

    def redirect_request(  # noqa: PLR0917 - as in the base class
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        """Return the request for the new address."""
        allowed = ("https://",) if req.full_url.lower().startswith("https://") else ("http://", "https://")
        if not newurl.lower().startswith(allowed):
            raise _RefusedError(f"it redirects to {newurl[:200]}, which is not fetched")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_opener = urllib.request.build_opener(_SafeRedirects)


def _open(url: str, have: int) -> http.client.HTTPResponse:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} cannot be fetched; give an http or https address")
    # Compressed responses would break sizes and checksums.
    headers = {"User-Agent": "levelfield", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response: http.client.HTTPResponse = _opener.open(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT
        )
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # no bytes after ours: the file is complete, or too long
            error.close()
            return _open_whole(url, have, error.headers.get("Content-Range", ""))
        raise _RefusedError(f"HTTP {error.code} {error.reason}") from error
    return response


def _open_whole(url: str, have: int, content_range: str) -> http.client.HTTPResponse:
    """Request the last byte if the file is complete, to confirm its size; else request all of it."""
    whole = content_range.endswith(f"/{have}")
    return _open(url, have - 1 if whole else 0)


def _range(response: http.client.HTTPResponse, have: int) -> tuple[int, int]:
    """Return the offset of the response and the total size of the file (0 if unknown)."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) > have:
            raise _RefusedError("the server sent a range that was not requested")
        return int(match[1]), 0 if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length") or "0"
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise _RefusedError(f"the server sent the length {length[:40]!r}")
    return 0, int(length)


def _copy(
    source: http.client.HTTPResponse, target: IO[bytes], start: int, total: int, progress: Progress
) -> int:
    done = start
    progress(done, total)
    since, before = time.monotonic(), start
    while chunk := source.read1(_CHUNK):
        target.write(chunk)
        done += len(chunk)
        progress(done, total)
        if time.monotonic() - since >= _TIMEOUT:  # each byte restarts the timeout of the connection
            if done - before < _TIMEOUT * _SLOWEST:
                raise ConnectionError(f"the server sends less than {_SLOWEST:,} bytes per second")
            since, before = time.monotonic(), done
    return done


def _check_disk_space(part: Path, needed: int) -> None:
    free = shutil.disk_usage(part.parent).free
    if needed > free:
        raise OSError(f"{needed / 1e9:.1f} GB are needed but only {free / 1e9:.1f} GB are free")


def _kept_size(part: Path) -> str:
    return f" ({part.stat().st_size:,} bytes are kept)" if part.exists() else ""
