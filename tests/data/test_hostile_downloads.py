"""Servers that redirect, stall or lie about lengths give one clear line, and the next address is tried."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from levelfield.data import _download
from levelfield.data._download import UnreachableError, download

Answer = Callable[[BaseHTTPRequestHandler], None]
WHOLE = b"x" * 1000


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def redirect(target: str) -> Answer:
    return lambda handler: send(handler, b"", 302, Location=target, Content_Length="0")


def stall(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"x", Content_Length="1000")
    stopped.wait()


def trickle(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"", Content_Length="1000000")
    try:
        while not stopped.wait(0.005):
            handler.wfile.write(b"x")
            handler.wfile.flush()
    except OSError:
        pass


stopped = threading.Event()
ANSWERS: dict[str, Answer] = {
    "/good": lambda handler: send(handler, WHOLE, Content_Length="1000"),
    "/moved": redirect("/good"),
    "/loop": redirect("/loop"),
    "/to-a-file": redirect("file:///etc/hostname"),
    "/to-ftp": redirect("ftp://127.0.0.1/x"),
    "/short": lambda handler: send(handler, WHOLE[:100], Content_Length="1000"),
    "/text": lambda handler: send(handler, WHOLE, Content_Length="many"),
    "/negative": lambda handler: send(handler, WHOLE, Content_Length="-1"),
    "/endless": lambda handler: send(handler, WHOLE, Content_Length="9" * 30),
    "/odd-range": lambda handler: send(handler, WHOLE, 206, Content_Range="bytes 5-1/x"),
    "/stall": stall,
    "/trickle": trickle,
}


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(_download, "_TIMEOUT", 0.2)
    monkeypatch.setattr(_download, "_SLOWEST", 10_000)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ANSWERS[self.path](self)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    stopped.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    stopped.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in ANSWERS if path not in ("/good", "/moved")])
def test_a_hostile_server_is_one_line_and_the_next_address_is_tried(
    path: str, address: str, tmp_path: Path
) -> None:
    with pytest.raises(UnreachableError) as caught:
        download([address + path], tmp_path / "file")
    assert "\n" not in str(caught.value) and not (tmp_path / "file").exists()
    download([address + path, address + "/good"], tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == WHOLE


@pytest.mark.slow
def test_a_redirect_is_followed(address: str, tmp_path: Path) -> None:
    download([address + "/moved"], tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == WHOLE


def test_no_redirect_leaves_https() -> None:
    request = urllib.request.Request("https://example.org/file")
    with pytest.raises(_download._RefusedError, match="it redirects to http://example"):
        _download._SafeRedirects().redirect_request(request, None, 302, "", {}, "http://example.org/file")
