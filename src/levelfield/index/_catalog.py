"""The catalogue of an index: which picture each vector belongs to. One SQLite file, the truth about all.

Vectors are written and flushed before their rows are committed here, so that whatever lies in the vector
files beyond the last row was cut short, and is written over by the next writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.errors import RunError

CATALOG = "catalog.sqlite"
SCHEMA = """
create table if not exists items (
    row integer primary key,
    content blob not null,
    name text not null,
    label text not null,
    removed integer not null default 0
);
create unique index if not exists items_by_content on items (content) where removed = 0;
create index if not exists items_by_name on items (name) where removed = 0;
create index if not exists items_removed on items (row) where removed = 1;
"""
MANY = 500  # values in one query; SQLite takes at least 999
SECONDS = 30.0  # how long to wait for another process's commit


@dataclass(frozen=True)
class Item:
    """One picture of an index.

    Attributes:
        row: Which vector is its.
        name: Its path, or ``dataset:number``.
        label: Its class; empty if it has none.
    """

    row: int
    name: str
    label: str


@dataclass(frozen=True)
class NewItem:
    """A picture to be added: the hash of its content, its name and its label."""

    content: bytes
    name: str
    label: str


class Catalog:
    """Names, labels and contents of an index, by row."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.path = folder / CATALOG
        # A reader opens the file for writing as well if it may: what a killed writer left half done must be
        # rolled back before anything can be read.
        mode = "rwc" if write else "rw"
        with self._errors():
            self._database = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            if write:
                self._database.execute("pragma synchronous = full")
                self._database.executescript(SCHEMA)
            else:
                self._database.execute("pragma query_only = on")

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def rows(self) -> int:
        """How many rows there are, removed ones among them."""
        (last,) = self._one("select coalesce(max(row) + 1, 0) from items")
        return int(last)

    def removed(self) -> npt.NDArray[np.int64]:
        """The removed rows, in order."""
        with self._errors():
            found = self._database.execute("select row from items where removed = 1 order by row").fetchall()
        return np.array([row for (row,) in found], dtype=np.int64)

    def version(self) -> tuple[int, int]:
        """Changes whenever a row is added or removed."""
        (removed,) = self._one("select count(*) from items where removed = 1")
        return self.rows(), int(removed)

    def items(self, rows: Sequence[int]) -> list[Item]:
        """The items of these rows, in this order, without those that were removed."""
        found: dict[int, Item] = {}
        for part in _parts(list(rows)):
            marks = ",".join("?" * len(part))
            with self._errors():
                query = f"select row, name, label from items where removed = 0 and row in ({marks})"
                found |= {
                    row: Item(row, name, label) for row, name, label in self._database.execute(query, part)
                }
        return [found[row] for row in rows if row in found]

    def everything(self) -> Iterator[Item]:
        """All items that were not removed, by row."""
        with self._errors():
            query = "select row, name, label from items where removed = 0 order by row"
            for row, name, label in self._database.execute(query):
                yield Item(row, name, label)

    def known(self, contents: Sequence[bytes]) -> dict[bytes, Item]:
        """The items that have these contents."""
        found = {}
        for part in _parts(list(contents)):
            marks = ",".join("?" * len(part))
            with self._errors():
                query = (
                    f"select content, row, name, label from items where removed = 0 and content in ({marks})"
                )
                for content, row, name, label in self._database.execute(query, part):
                    found[content] = Item(row, name, label)
        return found

    def named(self, name: str, *, below: bool) -> list[int]:
        """The rows of the pictures called ``name``, or in the folder of that name if ``below``."""
        query, value = "select row from items where removed = 0 and name = ?", name
        if below:
            query = "select row from items where removed = 0 and substr(name, 1, length(?1)) = ?1"
            value = name.rstrip("/") + "/"
        with self._errors():
            return [row for (row,) in self._database.execute(query, (value,))]

    def outdated(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """The rows that are in under one of these names with another content than the one seen there."""
        query = "select row from items where removed = 0 and name = ? and content <> ?"
        with self._errors():
            return [row for pair in seen for (row,) in self._database.execute(query, pair)]

    def add(self, first: int, items: Iterable[NewItem]) -> None:
        """Add items as the rows from ``first`` on, all or none of them."""
        values = [(first + n, item.content, item.name, item.label) for n, item in enumerate(items)]
        with self._transaction():
            self._database.executemany(
                "insert into items (row, content, name, label) values (?, ?, ?, ?)", values
            )

    def remove(self, rows: Sequence[int]) -> None:
        """Mark rows as removed, all or none of them."""
        with self._transaction():
            self._database.executemany("update items set removed = 1 where row = ?", [(row,) for row in rows])

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Give a picture that moved its new name."""
        with self._transaction():
            self._database.execute("update items set name = ?, label = ? where row = ?", (name, label, row))

    def _one(self, query: str) -> tuple[int, ...]:
        with self._errors():
            found: tuple[int, ...] = self._database.execute(query).fetchone()
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._database.execute("begin immediate")
            try:
                yield
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise RunError(
                f"cannot use {self.path}: {error}; make room or mend the disk, then give the same command "
                "again: what was finished is kept"
            ) from error
        except sqlite3.DatabaseError as error:
            raise RunError(f"{self.path} is damaged ({error}); delete the index and make it again") from error


def _parts(values: list[bytes] | list[int]) -> Iterator[list[bytes] | list[int]]:
    for start in range(0, len(values), MANY):
        yield values[start : start + MANY]
