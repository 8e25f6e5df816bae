"""The search box under attack: what is sent is answered or refused, and stays nowhere."""

from __future__ import annotations

import http.client
import io
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.helpers.web_pages import served
from tests.retrieval.index.conftest import draw, fill, make_model

import levelfield as lf
from levelfield.retrieval.index import add_images, images_from_folder, open_or_create_index

LIMIT = 20_000_000  # bytes, as docs/search.md says


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("box")
    model = make_model(root / "model")
    with open_or_create_index(root / "index", model) as store:
        add_images(store, lf.load_embedder(model), images_from_folder(fill(root / "images", 6)), threads=1)
        store.finish()
    return root


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with served("--index", str(root / "index")) as address:
        yield int(address.rsplit(":", 1)[1].split("/")[0])


def ask(port: int, path: str = "/search", body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(content) if is_json else content


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def claims(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it has so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Origin": "https://evil.example/127.0.0.1"},
        {"Host": "evil.example"},
        {"Host": "evil.example", "Origin": "http://127.0.0.1"},
    ],
    ids=str,
)
def test_other_sites_cannot_upload(port: int, headers: dict[str, str]) -> None:
    status, text = ask(port, body=png(draw(1)), **headers)
    assert status == 403 and b"neighbors" not in text


@pytest.mark.slow
def test_an_image_is_answered_and_the_own_page_may_search(port: int) -> None:
    for headers in ({}, {"Origin": f"http://127.0.0.1:{port}"}, {"Origin": f"http://localhost:{port}"}):
        status, found = ask(port, body=png(draw(3)), **headers)
        assert status == 200 and found["answers"][0]["neighbors"][0]["name"].endswith("0003.png")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 422, "image"),
        (b"<svg onload=alert(1)>", 422, "image"),
        (png(draw(1))[:200], 422, "image"),
        (claims(100_000, 100_000), 422, "pixels"),
        (claims(2**31 - 1, 2**31 - 1), 422, ""),
        (b"\xff" * (LIMIT + 1), 413, "bytes"),
    ],
    ids=["nothing", "no image", "half an image", "ten billion pixels", "more than fit", "too many bytes"],
)
def test_what_cannot_be_shown_gets_one_line(port: int, body: bytes, status: int, words: str) -> None:
    found, answer = ask(port, body=body)
    assert found == status and words in answer["error"] and "\n" not in answer["error"]
    assert "Traceback" not in answer["error"] and "/" not in answer["error"], "no path of the machine"
    assert ask(port, body=png(draw(2)))[0] == 200, "it goes on"


@pytest.mark.parametrize(
    "path",
    [
        "/search/9/image/0",
        "/search/0/image/999999",
        "/search/0/image/99999999999999999999999999",
        "/search/0/again/6",
        "/search/0/image/..%2f..%2fcatalog.sqlite",
        "/search/-1/image/0",
        "/search/0/image/-1",
    ],
)
def test_no_address_names_anything_else(port: int, path: str) -> None:
    status, answer = ask(port, path)
    assert status in (404, 422) and b"RIFF" not in (answer if isinstance(answer, bytes) else b"")


def test_a_file_that_changed_its_nature_is_not_shown(root: Path, port: int) -> None:
    """An indexed image that was replaced by a link is not served."""
    names = sorted((root / "images").rglob("*.png"))
    rows = {root / "images" / each["name"]: each["row"] for each in neighbors(port)}
    victim = names[-1]
    kept = victim.read_bytes()
    (root / "secret.txt").write_text("secret")
    victim.unlink()
    victim.symlink_to(root / "secret.txt")
    try:
        status, answer = ask(port, f"/search/0/image/{rows[victim]}")
        assert status == 404 and "secret" not in json.dumps(answer)
    finally:
        victim.unlink()
        victim.write_bytes(kept)


def neighbors(port: int) -> list[dict[str, Any]]:
    return list(ask(port, body=png(draw(0)))[1]["answers"][0]["neighbors"])


def test_many_at_once_are_all_answered(port: int) -> None:
    """Good and bad ones together: none takes the others with it."""
    bodies = [png(draw(n % 6)) if n % 3 else claims(60_000, 60_000) for n in range(24)]
    with ThreadPoolExecutor(12) as threads:
        statuses = list(threads.map(lambda body: ask(port, body=body)[0], bodies))
    assert statuses == [200 if n % 3 else 422 for n in range(24)]


def test_nothing_that_was_sent_is_stored(root: Path, port: int) -> None:
    mark = os.urandom(24)
    image = png(draw(5)) + mark  # decoders ignore what comes after the end of an image
    before = {file: file.stat().st_mtime_ns for file in root.rglob("*") if file.is_file()}
    scratch = set(Path(tempfile.gettempdir()).iterdir())
    assert ask(port, body=image)[0] == 200
    assert {file: file.stat().st_mtime_ns for file in root.rglob("*") if file.is_file()} == before
    new = set(Path(tempfile.gettempdir()).iterdir()) - scratch
    assert not [file for file in new if file.is_file() and mark in file.read_bytes()]
