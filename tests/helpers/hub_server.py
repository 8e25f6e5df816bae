"""Local replacement of the Hugging Face hub that serves repositories from a directory.

``ROOT/models/OWNER/NAME/...`` and ``ROOT/datasets/OWNER/NAME/...`` are repositories with one commit.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


def commit_hash(directory: Path) -> str:
    """Return a hash of a repository's content."""
    digest = hashlib.sha1()
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        digest.update(file.relative_to(directory).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


class HubRequestHandler(BaseHTTPRequestHandler):
    """Handler of hub requests."""

    root: Path
    requests: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._respond()

    def do_GET(self) -> None:
        self._respond()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._respond(json.loads(self.rfile.read(length) or b"{}"))

    def _respond(self, body: dict[str, object] | None = None) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.requests.append(f"{self.command} {path}")
        parts = path.split("/")
        if parts[0] == "plain":
            file = self.root / path
            self._send(file.read_bytes() if file.is_file() else None, "application/octet-stream")
        elif parts[0] == "api" and len(parts) >= 4:
            self._api(parts[1], "/".join(parts[2:4]), parts[4:], body or {})
        elif "resolve" in parts:
            kind = "datasets" if parts[0] == "datasets" else "models"
            rest = parts[1:] if parts[0] == "datasets" else parts
            repository = self.root / kind / rest[0] / rest[1]
            file = repository / "/".join(rest[4:])
            self._send(file.read_bytes() if file.is_file() else None, "application/octet-stream", repository)
        else:
            self._send(None)

    def _api(self, kind: str, name: str, rest: list[str], body: dict[str, object]) -> None:
        repository = self.root / kind / name
        if not repository.is_dir():
            self._send(None)
            return
        files = [
            path.relative_to(repository).as_posix()
            for path in sorted(repository.rglob("*"))
            if path.is_file()
        ]
        if rest[:1] == ["tree"]:
            self._json(
                self._tree(repository, "/".join(rest[2:]), whole="recursive=true" in self.path.lower())
            )
        elif rest[:1] == ["paths-info"]:
            wanted = body.get("paths", [])
            assert isinstance(wanted, list)
            self._json([self._file_info(repository, f) for f in files if f in wanted])
        else:
            about = {"id": name, "sha": commit_hash(repository), "private": False, "gated": False, "tags": []}
            self._json(about | {"siblings": [{"rfilename": f} for f in files], "downloads": 0, "likes": 0})

    def _tree(self, repository: Path, below: str, *, whole: bool) -> list[dict[str, object]]:
        top = repository / below
        found = sorted(top.rglob("*") if whole else top.iterdir()) if top.is_dir() else []
        names = [path.relative_to(repository).as_posix() for path in found]
        return [
            self._file_info(repository, name)
            if (repository / name).is_file()
            else {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
            for name in names
        ]

    def _file_info(self, repository: Path, name: str) -> dict[str, object]:
        data = (repository / name).read_bytes()
        return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}

    def _json(self, value: object) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _send(self, data: bytes | None, kind: str = "text/plain", repository: Path | None = None) -> None:
        whole = data or b""
        wanted = self.headers.get("Range")
        piece = whole
        if data is not None and wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last) if last else len(whole) - 1, len(whole) - 1)
            piece = whole[int(first) : end + 1]
        self.send_response(404 if data is None else 206 if wanted else 200)
        if data is None:
            self.send_header("X-Error-Code", "RepoNotFound" if repository is None else "EntryNotFound")
        if wanted and data is not None:
            self.send_header("Content-Range", f"bytes {first}-{end}/{len(whole)}")
        if repository is not None and repository.is_dir():
            self.send_header("X-Repo-Commit", commit_hash(repository))
            self.send_header("ETag", f'"{hashlib.sha1(whole).hexdigest()}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(piece)


@contextmanager
def start_hub(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Start a hub for the repositories in ``root``; yield its address and the list of received requests."""
    requests: list[str] = []
    handler = type("Handler", (HubRequestHandler,), {"root": root, "requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
