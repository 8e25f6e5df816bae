"""Catalog of an index: the image of each vector, in one SQLite file.

The catalog defines what the index holds. Vectors are written and flushed before their rows are committed
here. Bytes in the vector files beyond the last row come from an interrupted writer; the next one overwrites
them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import RunError
from levelfield.retrieval.index._catalog_schema import SCHEMA, check_plain
from levelfield.retrieval.index._conditions import COLUMNS, common_root, select_rows
from levelfield.retrieval.index._filters import LABEL, Condition, as_number

CATALOG = "catalog.sqlite"
DAMAGED = "an image has a name or a label that is not text"
MAX_ROWS = 1 << 48
MAX_VALUES = 500  # values in one query; SQLite accepts at least 999
SECONDS = 30.0  # timeout while another process commits


@dataclass(frozen=True)
class IndexedImage:
    """Image of an index.

    Attributes:
        row: Row of its vector.
        name: Path, or ``dataset:row``.
        label: Class; empty if it has none.
    """

    row: int
    name: str
    label: str

    def __post_init__(self) -> None:
        """Raise RunError if a stranger's catalog holds other types."""
        if not (type(self.row) is int and type(self.name) is str and type(self.label) is str):
            raise RunError(f"the catalog of the index is damaged ({DAMAGED}); create the index again")


@dataclass(frozen=True)
class NewImage:
    """Image to be added: the hash of its content, its name and its label."""

    content: bytes
    name: str
    label: str


class Catalog:
    """Names, labels and content hashes of an index, by row."""

    def __init__(self, directory: Path, *, write: bool = False) -> None:
        self.path = directory / CATALOG
        # Readers also open the file for writing, if permitted: a half-finished commit of a killed writer must
        # be rolled back before the first read.
        mode = "rwc" if write else "rw"
        with self._errors():
            self._database = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._database.execute("pragma trusted_schema = off")
            if write:
                check_plain(self._database, self.path)
                self._database.execute("pragma synchronous = full")
                self._database.executescript(SCHEMA)
            else:
                self._database.execute("pragma query_only = on")
                check_plain(self._database, self.path)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def rows(self) -> int:
        """Return the number of rows, including removed ones."""
        (last,) = self._fetch_one("select coalesce(max(row) + 1, 0) from items")
        if type(last) is not int or not 0 <= last < MAX_ROWS:
            raise RunError(f"{self.path} is damaged (row {last}); delete the index and create it again")
        return last

    def check_rows(self) -> None:
        """Raise RunError if rows are missing: few rows could then claim vectors without end.

        Removed images keep their row.
        """
        last, count = self._fetch_one("select coalesce(max(row) + 1, 0), count(*) from items")
        if last != count:
            raise RunError(
                f"{self.path} is damaged ({count} of {last} rows); delete the index and create it again"
            )

    def removed(self) -> npt.NDArray[np.int64]:
        """Return the removed rows in ascending order."""
        with self._errors():
            found = self._database.execute("select row from items where removed = 1 order by row").fetchall()
        return np.array([row for (row,) in found], dtype=np.int64)

    def version(self) -> tuple[int, int]:
        """Return a value that changes whenever a row is added or removed."""
        (removed,) = self._fetch_one("select count(*) from items where removed = 1")
        return self.rows(), int(removed)

    def images(self, rows: Sequence[int]) -> list[IndexedImage]:
        """Return the images of these rows, in this order, without removed ones."""
        found: dict[int, IndexedImage] = {}
        for part in _parts(list(rows)):
            marks = ",".join("?" * len(part))
            with self._errors():
                query = f"select row, name, label from items where removed = 0 and row in ({marks})"
                found |= {
                    row: IndexedImage(row, name, label)
                    for row, name, label in self._database.execute(query, part)
                }
        return [found[row] for row in rows if row in found]

    def all_images(self) -> Iterator[IndexedImage]:
        """Yield all images that were not removed, by row."""
        with self._errors():
            query = "select row, name, label from items where removed = 0 order by row"
            for row, name, label in self._database.execute(query):
                yield IndexedImage(row, name, label)

    def find_by_content(self, contents: Sequence[bytes]) -> dict[bytes, IndexedImage]:
        """Return the images with these content hashes."""
        found = {}
        for part in _parts(list(contents)):
            marks = ",".join("?" * len(part))
            with self._errors():
                query = (
                    f"select content, row, name, label from items where removed = 0 and content in ({marks})"
                )
                for content, row, name, label in self._database.execute(query, part):
                    found[content] = IndexedImage(row, name, label)
        return found

    def find_by_name(self, name: str, *, below: bool) -> list[int]:
        """Return the rows of images called ``name``, or of all images in the folder ``name`` if ``below``."""
        query, value = "select row from items where removed = 0 and name = ?", name
        if below:
            query = "select row from items where removed = 0 and substr(name, 1, length(?1)) = ?1"
            value = name.rstrip("/") + "/"
        with self._errors():
            return [row for (row,) in self._database.execute(query, (value,))]

    def outdated_rows(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """Return the rows with one of these names but another content hash.

        Args:
            seen: Names and current content hashes.
        """
        query = "select row from items where removed = 0 and name = ? and content <> ?"
        with self._errors():
            return [row for pair in seen for (row,) in self._database.execute(query, pair)]

    def add(self, first: int, images: Iterable[NewImage]) -> None:
        """Add images as the rows from ``first`` on, in one transaction."""
        values = [(first + n, image.content, image.name, image.label) for n, image in enumerate(images)]
        with self._transaction():
            self._database.executemany(
                "insert into items (row, content, name, label) values (?, ?, ?, ?)", values
            )

    def remove(self, rows: Sequence[int]) -> None:
        """Mark rows as removed, in one transaction."""
        with self._transaction():
            gone = [(row,) for row in rows]
            self._database.executemany("update items set removed = 1 where row = ?", gone)
            if self._has_metadata():
                self._database.executemany("delete from metadata where row = ?", gone)

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Set the name and label of an image whose file moved."""
        with self._transaction():
            self._database.execute("update items set name = ?, label = ? where row = ?", (name, label, row))

    def columns(self) -> list[str]:
        """Return the names of the metadata columns."""
        found = [name for (name,) in self._fetch(COLUMNS)] if self._has_metadata() else []
        return [name for name in found if type(name) is str]

    def root(self) -> str:
        """Return the folder that holds all images; empty if they are not files or share none."""
        return common_root(*self._fetch("select min(name), max(name) from items where removed = 0")[0])

    def select(self, conditions: Sequence[Condition]) -> npt.NDArray[np.int64]:
        """Return the rows that meet all conditions, in ascending order."""
        return select_rows(conditions, self.columns(), self.root(), self._fetch)

    def metadata(self, rows: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return the metadata of these rows."""
        found: dict[int, dict[str, str]] = {}
        for part in _parts(list(rows)) if self._has_metadata() else ():
            query = f"select row, key, value from metadata where row in ({','.join('?' * len(part))})"
            for row, key, value in self._fetch(query, tuple(part)):
                if type(key) is not str or type(value) is not str:
                    raise RunError(f"{self.path} is damaged (metadata that is not text); create it again")
                found.setdefault(row, {})[key] = value
        return found

    def set_metadata(self, values: Mapping[int, Mapping[str, str]]) -> None:
        """Set values of columns by row, in one transaction; other columns of these rows are kept."""
        cells = [(row, key, value) for row, found in values.items() for key, value in found.items()]
        lines = [(row, key, value, as_number(value)) for row, key, value in cells if key != LABEL]
        labels = [(value, row) for row, key, value in cells if key == LABEL]
        with self._transaction():
            self._database.executemany("update items set label = ? where row = ?", labels)
            self._database.executemany("insert or replace into metadata values (?, ?, ?, ?)", lines)

    def rows_by_name(self, names: Sequence[str]) -> dict[str, int]:
        """Return the rows of the images with these names."""
        found: dict[str, int] = {}
        for start in range(0, len(names), MAX_VALUES):
            part = names[start : start + MAX_VALUES]
            marks = ",".join("?" * len(part))
            query = f"select name, row from items where removed = 0 and name in ({marks})"
            found |= dict(self._fetch(query, tuple(part)))
        return found

    def images_without(self, column: str, *, after: int, count: int) -> list[IndexedImage]:
        """Return the first ``count`` images with a row above ``after`` that have no value in a column."""
        query = (
            "select row, name, label from items where removed = 0 and row > ? and not exists "
            "(select 1 from metadata where metadata.row = items.row and key = ?) order by row limit ?"
        )
        return [IndexedImage(*each) for each in self._fetch(query, (after, column, count))]

    def _has_metadata(self) -> bool:
        """Return False for an index of an older version that was not written to since."""
        return bool(self._fetch("select 1 from sqlite_master where type = 'table' and name = 'metadata'"))

    def _fetch(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._errors():
            named = query.format(items="items", metadata="metadata", alive="removed = 0")
            return self._database.execute(named, values).fetchall()

    def _fetch_one(self, query: str) -> tuple[int, ...]:
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
                f"cannot use {self.path}: {error}; free disk space or fix the disk, then run the same "
                "command again: finished work is kept"
            ) from error
        except sqlite3.DatabaseError as error:
            raise RunError(
                f"{self.path} is damaged ({error}); delete the index and create it again"
            ) from error


def _parts(values: list[bytes] | list[int]) -> Iterator[list[bytes] | list[int]]:
    for start in range(0, len(values), MAX_VALUES):
        yield values[start : start + MAX_VALUES]
