"""Bad addresses and tables of an index in PostgreSQL: one line each, without a piece of the password."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from levelfield.core.errors import LevelfieldError, RunError
from levelfield.retrieval.index.postgres import PostgresIndex, _split

pytest.importorskip("psycopg")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://user:100%zebra@127.0.0.1:1/db",
        "postgresql://user:ze[bra@127.0.0.1:1/db",
        "postgresql://user:ze/bra@127.0.0.1:1/db",
        "postgresql://user:ze bra@127.0.0.1:1/db",
        "postgresql://user:ze@bra@127.0.0.1:1/db",
        "postgresql://user:ze?bra@127.0.0.1:1/db",
        "postgresql://user:ze\udcffbra@127.0.0.1:1/db",
        "postgresql://user:zebra",
        "postgresql://user:zebra@[::1",
        "postgresql://user@127.0.0.1:1/db?password=zebra%zz",
        "postgresql://user@" + "x" * 90_000,
        "postgresql://user@" + "x" * 180,
    ],
)
def test_a_bad_address_is_one_line_without_the_password(address: str) -> None:
    with pytest.raises(LevelfieldError) as error:
        PostgresIndex(address)
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 500
    assert "ze" not in text
    assert "zebra" not in text


def test_good_addresses_stay_as_they_are() -> None:
    for address in (
        "postgresql://user:%40%2F@host:5432/images",
        "postgresql://user@[::1]:5432/images?sslmode=require",
        "postgres://one:1,two:2/images",
        "postgresql:///images?host=/run/postgresql",
        "postgresql://postgres:@/postgres?host=/tmp/a%20place",
    ):
        got, table = _split(address + ("&" if "?" in address else "?") + "table=birds")
        assert table == "birds"
        assert got == address


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (len, (None,)),
        (lambda index: index.columns(), (b"year",)),
        (lambda index: index.images([1]), ("1", "a.png", "a")),
        (lambda index: index.metadata([1]), (1, "year", 2020)),
        (lambda index: index.vectors(np.array([1])), (1, "[[1, 2]]")),
        (lambda index: index.vectors(np.array([1])), (1, "[1, [2]]")),
        (lambda index: index.vectors(np.array([1])), (1, "[" * 100_000)),
        (lambda index: index.nearest(np.ones((1, 2)), 1, among=np.array([1])), ("x", 0.5)),
        (lambda index: index.nearest(np.ones((1, 2)), 1, among=np.array([1])), (1, None)),
    ],
)
def test_tables_of_other_types_are_one_line(call: Any, found: tuple[Any, ...]) -> None:
    index = PostgresIndex.__new__(PostgresIndex)
    index._table, index._effort, index.model = "birds", 100, SimpleNamespace(size=2)  # type: ignore[assignment]  # stand-ins
    index._rows = lambda *_: [found]  # type: ignore[method-assign]  # a stand-in
    with pytest.raises(RunError, match="damaged"):
        call(index)
