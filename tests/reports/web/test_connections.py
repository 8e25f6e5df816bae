"""Slow, half-open and odd connections are closed or refused; a client that leaves is no error."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.flow_control import FlowControl

from levelfield.reports.web import connections
from levelfield.reports.web.server import _RequestGuard, make_app

HOST = b"Host: 127.0.0.1\r\n"


def started(app: Starlette) -> Iterator[int]:
    """Serve ``app`` in a thread and yield its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(connections.server_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()
    listener.close()


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.1)
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.1)
    yield from started(make_app([tmp_path]))


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.settimeout(60)  # a limit of the test, far above those of the server
    return client


def read_all(client: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\n" + HOST,
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nabc",
    ],
    ids=["silent", "half a line", "half of the headers", "half of the body"],
)
def test_a_half_open_connection_is_closed(port: int, sent: bytes) -> None:
    with connect(port) as client:
        client.sendall(sent)
        answer = read_all(client)  # returns: the server closes it
        assert not answer or b" 405 " in answer


def test_the_second_request_of_a_connection_has_the_same_limits(port: int) -> None:
    with connect(port) as client:
        client.sendall(b"GET /list HTTP/1.1\r\n" + HOST + b"\r\n")
        while b"\r\n0\r\n" not in (first := client.recv(65536)) and b"</" not in first:
            pass
        client.sendall(b"GET / HT")
        assert b"400" not in read_all(client)


def test_a_whole_request_is_answered(port: int) -> None:
    with connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def test_headers_have_a_size(port: int) -> None:
    with connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * connections.MAX_HEADER_BYTES))
        assert b"200" not in read_all(client)


def test_more_connections_than_allowed_are_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 3600)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)
    clients = [connect(port) for _ in range(3)]
    assert read_all(clients[-1]) == b""
    for client in clients:
        client.close()


def test_two_host_headers_are_refused(port: int) -> None:
    with connect(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\nConnection: close\r\n\r\n")
        assert read_all(client).split()[1] in (b"400", b"403")
    guard = _RequestGuard(PlainTextResponse(""), hosts=frozenset(["localhost"]))
    twice = [(b"host", b"evil.example"), (b"host", b"localhost")]
    assert guard._rejection(twice, "GET") == "More than one Host header."


@pytest.mark.parametrize(
    ("host", "origin", "accepted"),
    [
        (b"localhost:8321", b"http://localhost:8321", True),
        (b"127.0.0.1:8321", b"http://localhost:8321", True),
        (b"localhost", b"http://localhost:80", True),
        (b"localhost", b"https://localhost", True),  # behind a proxy
        (b"localhost:8321", b"http://localhost:8000", False),
        (b"localhost:8321", b"http://localhost", False),
        (b"localhost:8321", b"http://evil.example:8321", False),
        (b"localhost:8321", b"null", False),
    ],
)
def test_the_origin_of_an_upload_has_the_port_of_the_server(
    host: bytes, origin: bytes, accepted: bool
) -> None:
    guard = _RequestGuard(PlainTextResponse(""), hosts=frozenset(["localhost", "127.0.0.1"]))
    headers = [(b"host", host), (b"origin", origin)]
    assert (guard._rejection(headers, "POST") == "") == accepted
    assert guard._rejection(headers, "GET") == ""


def test_a_client_that_leaves_leaves_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    reading, ended = threading.Event(), threading.Event()

    async def upload(request: Request) -> Response:
        reading.set()
        try:
            await request.body()
        finally:
            ended.set()
        return PlainTextResponse("")

    guard = Middleware(_RequestGuard, hosts=frozenset(["127.0.0.1"]))
    app = Starlette(routes=[Route("/", upload, methods=["POST"])], middleware=[guard])
    with caplog.at_level(logging.WARNING):
        for port in started(app):
            with connect(port) as client:
                client.sendall(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nabc")
                assert reading.wait(60)
            assert ended.wait(60)
    assert "Traceback" not in caplog.text and "Exception" not in caplog.text


def test_a_reader_that_does_not_read_is_dropped() -> None:
    """The timer is tested with a transport of its own, because sockets buffer megabytes."""
    dropped = threading.Event()

    class Transport(asyncio.Transport):
        def abort(self) -> None:
            dropped.set()

    async def stall() -> None:
        config = connections.server_config(PlainTextResponse(""))
        config.load()
        protocol = connections.TimedProtocol(config, uvicorn.server.ServerState(), {})
        protocol.transport = Transport()
        protocol.flow = FlowControl(protocol.transport)
        protocol.pause_writing()
        while not dropped.is_set():
            await asyncio.sleep(0.01)

    before = connections.WRITE_SECONDS
    connections.WRITE_SECONDS = 0.01
    try:
        asyncio.run(stall())
    finally:
        connections.WRITE_SECONDS = before
