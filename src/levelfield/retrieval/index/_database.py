"""Connection to PostgreSQL that survives a server that goes away, and ends with one line if it stays away."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from levelfield.core.errors import RunError, UsageError

CONNECT_SECONDS = 10  # unless the address has its own connect_timeout
ANSWER_SECONDS = 120.0  # for one query; a server that says nothing for longer is given up

T = TypeVar("T")


class Database:
    """Connection to a database; a lost one is opened again.

    Args:
        address: ``postgresql://user@host/database``.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.RLock()  # of the connection: a thread that reads ahead uses it too
        self._connection = _connect(address)

    def call(self, work: Callable[[Any], T], *, limited: bool = True) -> T:
        """Return ``work(connection)``; if the connection is lost, do the work once more on a new one.

        The work must give the same when it is repeated, because a lost connection does not say if the
        database committed it.

        Args:
            work: Function of a psycopg connection in autocommit mode.
            limited: Give up after ``ANSWER_SECONDS``. False for work that may take hours.

        Raises:
            RunError: The database refused, cannot be reached or does not answer.
        """
        with self._lock, one_line_errors():
            if not self._connection.closed:
                try:
                    return self._attempt(work, limited=limited)
                except _driver().Error:
                    if not self._connection.closed:
                        raise  # the database is there, and refused
            self._connection = _connect(self._address)
            return self._attempt(work, limited=limited)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _attempt(self, work: Callable[[Any], T], *, limited: bool) -> T:
        connection, late = self._connection, threading.Event()
        timer = threading.Timer(ANSWER_SECONDS, _hang_up, [connection, late])
        timer.daemon = True
        if limited:
            timer.start()
        try:
            return work(connection)
        except _driver().Error as error:
            if late.is_set():
                raise RunError(
                    f"the database has not answered for {ANSWER_SECONDS:g} s; check that it runs and run the "
                    "same command again: committed work is kept"
                ) from error
            raise
        finally:
            timer.cancel()


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn database errors into a RunError of one line."""
    try:
        yield
    except _driver().Error as error:
        raise RunError(
            f"the database refused ({_first_line(error)}); fix it and run the same command again: committed "
            "work is kept"
        ) from error


def _hang_up(connection: Any, late: threading.Event) -> None:
    """End a connection whose server does not answer; the thread that waits for it gets an error."""
    late.set()
    with suppress(OSError, _driver().Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _connect(address: str) -> Any:
    psycopg = _driver()
    limit = {} if "connect_timeout=" in address else {"connect_timeout": CONNECT_SECONDS}
    try:
        return psycopg.connect(address, autocommit=True, **limit)
    except (psycopg.Error, UnicodeError) as error:  # UnicodeError: a name that no host can have
        raise RunError(
            f"cannot reach the database ({_first_line(error)}); check the address and that the server runs"
        ) from error


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(
            "an index in PostgreSQL needs psycopg; run pip install 'levelfield[postgres]'"
        ) from error
    return psycopg


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
