"""Fetching: resumable downloads from a local server, checksums, and no repeated work."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.oracles import layouts

from levelfield.core.errors import RunError, UsageError
from levelfield.data import Dataset, Download, registry
from levelfield.data._download import ChecksumError, UnreachableError, download
from levelfield.data.fetch import describe_terms, fetch

pytestmark = pytest.mark.slow  # experiments, end to end


class Server:
    """Server of ``files`` on 127.0.0.1 that disconnects after ``cut`` bytes and records requested ranges."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/{name}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, wanted = handler.path.lstrip("/"), handler.headers.get("Range")
        self.asked.append((name, wanted))
        body = self.files.get(name)
        if body is None:
            handler.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if start >= len(body) and wanted:
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(body)}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(206 if wanted and self.ranges else 200)
        if wanted and self.ranges:
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        handler.send_header("Content-Length", str(len(body) - start))
        handler.end_headers()
        handler.wfile.write(body[start : None if self.cut is None else start + self.cut])

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


BODY = bytes(range(256)) * 400


def test_a_broken_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.files["x.bin"], server.cut = BODY, 40_000
    target = tmp_path / "deep" / "x.bin"
    for done in (40_000, 80_000):
        with pytest.raises(
            UnreachableError, match=rf"ended after {done:,} of 102,400 bytes \({done:,} bytes are"
        ):
            download([server.url("x.bin")], target, md5=md5(BODY))
        assert not target.exists()
    seen: list[tuple[int, int]] = []
    download([server.url("x.bin")], target, md5=md5(BODY), progress=lambda *at: seen.append(at))
    assert target.read_bytes() == BODY and seen[0] == (80_000, 102_400) and seen[-1] == (102_400, 102_400)
    assert [wanted for _, wanted in server.asked] == [None, "bytes=40000-", "bytes=80000-"]
    assert [file.name for file in target.parent.iterdir()] == ["x.bin"]


@pytest.mark.parametrize("kept", [BODY, BODY + b"too much", BODY[:5]], ids=["whole", "too long", "short"])
@pytest.mark.parametrize("ranges", [True, False])
def test_whatever_was_kept_the_file_comes_out_whole(
    kept: bytes, ranges: bool, server: Server, tmp_path: Path
) -> None:
    server.files["x.bin"], server.ranges = BODY, ranges
    (tmp_path / "x.bin.part").write_bytes(kept)
    download([server.url("x.bin")], tmp_path / "x.bin", md5=md5(BODY))
    assert (tmp_path / "x.bin").read_bytes() == BODY


def test_without_a_checksum_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    server.files["x.bin"] = BODY
    (tmp_path / "x.bin.part").write_bytes(b"of another edition")
    download([server.url("x.bin")], tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == BODY and server.asked == [("x.bin", None)]


def test_a_wrong_checksum_removes_the_download_and_says_so(server: Server, tmp_path: Path) -> None:
    server.files["x.bin"] = BODY
    with pytest.raises(
        ChecksumError, match=f"has the checksum {md5(BODY)} instead of {md5(b'')}.*fetch it again"
    ):
        download([server.url("x.bin")], tmp_path / "x.bin", md5=md5(b""))
    assert list(tmp_path.iterdir()) == []


def test_the_next_address_is_tried(server: Server, tmp_path: Path) -> None:
    server.files["x.bin"] = BODY
    download([server.url("gone"), server.url("x.bin")], tmp_path / "x.bin", md5=md5(BODY))
    with pytest.raises(UnreachableError, match="HTTP 404"):
        download([server.url("gone")], tmp_path / "y.bin")
    with pytest.raises(UnreachableError, match="refused"):
        download(["http://127.0.0.1:9/x"], tmp_path / "y.bin")
    with pytest.raises(UsageError, match="give an http or https address"):
        download(["file:///etc/passwd"], tmp_path / "y.bin")


def test_a_full_or_blocked_disk_is_a_clear_failure(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["x.bin"] = BODY
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write .*free some space and try again"):
        download([server.url("x.bin")], tmp_path / "file" / "x.bin")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(RunError, match="GB are needed but only"):
        download([server.url("x.bin")], tmp_path / "x.bin")


@pytest.fixture
def birds(server: Server, tmp_path: Path) -> Iterator[Server]:
    """Register the dataset "birds": an archive like CUB's on the server, and a list without a checksum."""
    layouts.cub200(tmp_path / "made")
    archive = tmp_path / "birds.tgz"
    with tarfile.open(archive, "w:gz") as stream:
        stream.add(tmp_path / "made" / "CUB_200_2011", "CUB_200_2011")
    server.files |= {"birds.tgz": archive.read_bytes(), "list.txt": b"a list"}
    server.files["birds.md5"] = f"{md5(server.files['birds.tgz'])}  birds.tgz\n".encode()
    downloads = (
        Download(
            urls=(server.url("birds.tgz"),), file="birds.tgz", md5_url=server.url("birds.md5"), part="images"
        ),
        Download(urls=(server.url("list.txt"),), file="lists/list.txt", part="lists"),
    )

    @registry.register("birds", license="for tests", downloads=downloads, manual_download="draw the birds")
    def load(*, root: str) -> Dataset:
        """Birds."""
        raise NotImplementedError

    yield server
    del registry._entries["birds"]


def test_fetching_downloads_checks_unpacks_and_then_does_nothing_twice(birds: Server, tmp_path: Path) -> None:
    said: list[str] = []
    fetch("birds", tmp_path / "data", message_callback=said.append)
    assert (tmp_path / "data" / "CUB_200_2011" / "images.txt").exists()
    assert (tmp_path / "data" / "lists" / "list.txt").read_text() == "a list"
    assert any("no known checksum; its MD5 is" in line for line in said)
    birds.asked.clear()
    fetch("birds", tmp_path / "data", message_callback=said.append)
    assert birds.asked == [] and "birds.tgz is unpacked already" in said
    shutil.rmtree(tmp_path / "data" / "CUB_200_2011")
    fetch("birds", tmp_path / "data", message_callback=said.append)
    assert (tmp_path / "data" / "CUB_200_2011" / "images.txt").exists()


def test_parts_can_be_fetched_alone(birds: Server, tmp_path: Path) -> None:
    fetch("birds", tmp_path / "data", parts=("lists",))
    assert birds.asked == [("list.txt", None)]
    with pytest.raises(UsageError, match='birds has no part "image"; did you mean "images"'):
        fetch("birds", tmp_path / "data", parts=("image",))


def test_an_archive_put_there_by_hand_is_checked_and_used(birds: Server, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    mine = tmp_path / "data" / "birds.tgz"
    mine.write_bytes(b"another edition")
    with pytest.raises(RunError, match="delete it and run the command again"):
        fetch("birds", tmp_path / "data", parts=("images",))
    assert mine.exists(), "a user's own file is never removed"
    mine.write_bytes(birds.files["birds.tgz"])
    fetch("birds", tmp_path / "data", parts=("images",))
    assert not any(name == "birds.tgz" for name, _ in birds.asked)


def test_unreachable_files_name_the_manual_download(birds: Server, tmp_path: Path) -> None:
    del birds.files["birds.tgz"]
    with pytest.raises(RunError, match=r"cannot fetch birds\.tgz .*HTTP 404.*draw the birds"):
        fetch("birds", tmp_path / "data")
    birds.files["birds.md5"] = b"<html>"
    with pytest.raises(RunError, match="holds no MD5 checksum"):
        fetch("birds", tmp_path / "data")


def test_sets_without_a_download_say_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"inshop cannot be fetched automatically: .*signed agreement"):
        fetch("inshop", tmp_path)
    with pytest.raises(UsageError, match="glyphs cannot be fetched automatically: it needs no download"):
        fetch("glyphs", tmp_path)
    with pytest.raises(UsageError, match='unknown dataset "cub"'):
        fetch("cub", tmp_path)


def test_the_terms_name_license_source_citation_and_checksums() -> None:
    text = describe_terms("cub200")
    assert "Non-commercial" in text and "caltech.edu" in text and "Wah" in text
    assert "1 of 1 files have a known checksum" in text
