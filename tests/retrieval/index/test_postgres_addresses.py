"""Addresses of an index in PostgreSQL: one line for every bad one, without a piece of the password."""

from __future__ import annotations

import pytest

from levelfield.core.errors import LevelfieldError
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
