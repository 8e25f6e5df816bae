"""A PostgreSQL server that goes away during indexing and search: work goes on, or ends in one line."""

from __future__ import annotations

import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from tests.retrieval.index.conftest import draw

import levelfield as lf
from levelfield.core.errors import RunError
from levelfield.retrieval.index import _build, _database, add_images, images_from_folder
from levelfield.retrieval.index.postgres import PostgresIndex

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow  # the server of these tests takes two seconds to start


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a PostgreSQL server for these tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver")
        running = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield running.get_uri()
    running.cleanup()


def cut_connections(server: str) -> None:
    """End all other connections, as a server does that stops."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where pid <> pg_backend_pid() and backend_type = 'client backend'"
        )


def with_table(server: str, table: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}table={table}"


class Relay:
    """Socket between client and server that can fall silent, or close."""

    def __init__(self, server: str, directory: Path) -> None:
        self._target = dict(parse_qsl(urlsplit(server).query))["host"]
        self.directory = directory
        self.silent = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"postgresql://postgres:@/postgres?host={self.directory}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(f"{self._target}/.s.PGSQL.5432")
                self._open += [client, there]
                for pair in ((client, there), (there, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        (self.directory / ".s.PGSQL.5432").unlink()


@pytest.fixture
def relay(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    made = Relay(server, tmp_path_factory.mktemp("r"))
    yield made
    with suppress(OSError):
        made.close()


def test_a_search_after_a_restart_of_the_server_finds_the_same(
    server: str, images: Path, model: Path
) -> None:
    address, embedder = with_table(server, "restart"), lf.load_embedder(model)
    store = PostgresIndex(address, model=embedder.card)
    add_images(store, embedder, images_from_folder(images))
    searcher = lf.Searcher(address, model=model)
    before = searcher.search(draw(3), k=5)
    cut_connections(server)
    assert searcher.search(draw(3), k=5) == before
    assert len(store) == 30


def test_indexing_goes_on_when_the_connection_is_lost(
    server: str, images: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_build, "CHUNK", 8)
    embedder = lf.load_embedder(model)
    store = PostgresIndex(with_table(server, "lost"), model=embedder.card)
    cuts: list[int] = []

    def cut(result: Any) -> None:
        cuts.append(result.added)
        cut_connections(server)

    result = add_images(store, embedder, images_from_folder(images), progress_callback=cut)
    store.finish()
    assert len(cuts) == 4
    assert (result.added, len(store)) == (30, 30)


def test_a_server_that_stays_away_is_one_line_and_back_again_it_answers(
    relay: Relay, server: str, tmp_path_factory: pytest.TempPathFactory, model: Path
) -> None:
    store = PostgresIndex(relay.address, model=lf.load_embedder(model).card)
    assert len(store) == 0
    relay.close()
    for _ in range(2):
        with pytest.raises(RunError, match="cannot reach the database") as error:
            len(store)
        assert "\n" not in str(error.value)
    back = Relay(server, relay.directory)
    try:
        assert len(store) == 0
    finally:
        back.close()


def test_a_server_that_falls_silent_is_given_up(
    relay: Relay, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the process waited for ever."""
    store = PostgresIndex(relay.address, model=lf.load_embedder(model).card)
    relay.silent.set()
    monkeypatch.setattr(_database, "ANSWER_SECONDS", 0.1)
    with pytest.raises(RunError, match=r"has not answered for 0\.1 s; .*run the same command again"):
        store.nearest(np.eye(8, dtype=np.float32)[:1], 1)
    monkeypatch.setattr(_database, "CONNECT_SECONDS", 2)  # the least that psycopg knows
    with pytest.raises(RunError, match="cannot reach the database"):
        len(store)
    relay.silent.clear()
    monkeypatch.setattr(_database, "ANSWER_SECONDS", 60)
    assert len(store) == 0


def test_an_error_of_the_database_is_not_tried_twice(server: str, model: Path) -> None:
    store = PostgresIndex(with_table(server, "twice"), model=lf.load_embedder(model).card)
    calls = []

    def fail(connection: Any) -> None:
        calls.append(1)
        connection.execute("select 1 / 0")

    with pytest.raises(RunError, match="the database refused"):
        store._database.call(fail)
    assert calls == [1]
