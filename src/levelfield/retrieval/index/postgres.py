"""Index in PostgreSQL with the extension pgvector, for more images or users than one machine serves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import numpy as np

from levelfield.core.errors import RunError, UsageError
from levelfield.retrieval.embedders import ModelCard
from levelfield.retrieval.index._catalog import IndexedImage, NewImage
from levelfield.retrieval.index._conditions import COLUMNS, common_root, select_rows
from levelfield.retrieval.index._database import Database
from levelfield.retrieval.index._filters import LABEL, Condition, as_number
from levelfield.retrieval.index._sources import absolute_path
from levelfield.retrieval.index._store import Progress
from levelfield.retrieval.index._vectors import Floats, Rows

TABLE = "levelfield_index"
MAX_SIZE = 2000  # maximum vector size of pgvector's graph index
# The parser of PostgreSQL repeats what it cannot read, which may be a piece of a password, so that an address
# must have this form before it is passed on: special characters of a name or a password are percent-encoded.
_ESCAPED = r"(?:[^\s%:/?#@\[\]\x00]|%[0-9A-Fa-f]{2})*"
_HOST = r"(?:\[[0-9A-Fa-f:.]*\]|(?:[^\s%:/?#@,\[\]\x00]|%[0-9A-Fa-f]{2}){0,255})(?::[0-9]{0,5})?"
_ADDRESS = re.compile(
    rf"postgres(?:ql)?://(?:{_ESCAPED}(?::{_ESCAPED})?@)?{_HOST}(?:,{_HOST})*"
    r"(?:/(?:[^\s%?#@\x00]|%[0-9A-Fa-f]{2})*)?(?:\?(?:[^\s%#\x00]|%[0-9A-Fa-f]{2})*)?"
)
SETUP = (
    "create extension if not exists vector",
    "create table if not exists {table}_card (id int primary key check (id = 0), model text not null)",
    "create table if not exists {table} (row bigserial primary key, content bytea not null unique, "
    "name text not null, label text not null, vector vector({size}) not null)",
    "create index if not exists {table}_names on {table} (name text_pattern_ops)",
    "create index if not exists {table}_labels on {table} (label)",
    # The collation C compares bytes, as SQLite does.
    "create table if not exists {table}_metadata (row bigint not null references {table} on delete cascade, "
    'key text collate "C" not null, value text collate "C" not null, number double precision, '
    "primary key (row, key))",
    "create index if not exists {table}_values on {table}_metadata (key, value)",
    "create index if not exists {table}_numbers on {table}_metadata (key, number)",
)


class PostgresIndex:
    """Index in one database table; implements :class:`VectorStore`.

    Args:
        address: ``postgresql://user@host/database``, optionally with ``?table=birds``.
        model: Model card; missing tables are created for it. None opens an existing index.
        effort: Search effort in the graph (pgvector's ``hnsw.ef_search``).
    """

    def __init__(self, address: str, *, model: ModelCard | None = None, effort: int = 100) -> None:
        self.address, table = _split(address)
        self._table = table
        self._database = Database(self.address)
        self._effort = effort
        if model is not None:
            self._set_up(model)
        self.model = self._read_model()

    def __len__(self) -> int:
        return int(self._typed([int], "select count(*) from {table}")[0][0])

    def find_by_content(self, contents: Sequence[bytes]) -> dict[bytes, IndexedImage]:
        """Return the images with these content hashes."""
        found = self._rows(
            "select content, row, name, label from {table} where content = any(%s)", (list(contents),)
        )
        return {bytes(content): IndexedImage(row, name, label) for content, row, name, label in found}

    def add(self, images: Sequence[NewImage], vectors: Floats) -> None:
        """Add images with their vectors (n x D) in one transaction; known contents are left unchanged."""
        values = [
            (image.content, image.name, image.label, _text(vector))
            for image, vector in zip(images, vectors, strict=True)
        ]

        def insert(connection: Any) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(
                    self._sql(
                        "insert into {table} (content, name, label, vector) values (%s, %s, %s, %s) "
                        "on conflict (content) do nothing"
                    ),
                    values,
                )

        self._database.call(insert)

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Set the name and label of an image whose file moved."""
        self._run("update {table} set name = %s, label = %s where row = %s", (name, label, row))

    def outdated_rows(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """Return the rows with one of these names but another content hash."""
        found = self._rows(
            "select row from {table} join unnest(%s::text[], %s::bytea[]) as seen (at, held) "
            "on name = at and content <> held",
            ([name for name, _ in seen], [content for _, content in seen]),
        )
        return [row for (row,) in found]

    def remove_rows(self, rows: Sequence[int]) -> None:
        """Remove these rows."""
        self._run("delete from {table} where row = any(%s)", (list(rows),))

    def refresh(self) -> None:
        """Do nothing: every call queries the database."""

    def remove(self, name: str) -> int:
        """Remove the image called ``name``, or all images in the folder ``name``; return their number."""
        names = [name.rstrip("/"), str(absolute_path(name))]
        return self._run(
            "delete from {table} where name = any(%s) or exists "
            "(select from unnest(%s::text[]) as folder where starts_with(name, folder || '/'))",
            (names, names),
        )

    def finish(self, progress: Progress = lambda done, total: None) -> None:
        """Build the graph index; the database keeps it up to date afterwards."""
        query = "create index if not exists {table}_graph on {table} using hnsw (vector vector_ip_ops)"
        self._database.call(lambda connection: connection.execute(self._sql(query)), limited=False)

    def nearest(self, queries: Floats, count: int, *, among: Rows | None = None) -> tuple[Rows, Floats]:
        """Return the rows most similar to each query (unit vectors, Q x D) and their similarities, Q x k.

        ``among`` limits the search to these rows; it is then exact.
        """
        count = min(count, len(self) if among is None else len(among))
        rows = np.full((len(queries), count), -1, dtype=np.int64)
        values = np.full((len(queries), count), -np.inf, dtype=np.float32)
        for number, query in enumerate(queries):
            found = self._search(_text(query), count, among)
            self._check_types(found, [int, float])
            rows[number, : len(found)] = [row for row, _ in found]
            values[number, : len(found)] = [-distance for _, distance in found]
        return rows, values

    def images(self, rows: Sequence[int]) -> list[IndexedImage]:
        """Return the images of these rows, in this order, without removed ones."""
        found = self._rows("select row, name, label from {table} where row = any(%s)", (list(rows),))
        by_row = {row: IndexedImage(row, name, label) for row, name, label in found}
        return [by_row[row] for row in rows if row in by_row]

    def vectors(self, rows: Rows) -> Floats:
        """Return the vectors of these rows (n x D)."""
        query = "select row, vector::text from {table} where row = any(%s)"
        found = self._typed([int, str], query, ([int(row) for row in rows],))
        try:
            by_row = {row: np.array(json.loads(text), dtype=np.float32) for row, text in found}
        except (ValueError, RecursionError) as error:
            raise self._damaged() from error
        if any(vector.shape != (self.model.size,) for vector in by_row.values()):
            raise self._damaged()
        if len(found) < len(set(rows.tolist())):
            raise RunError("an image was removed during the search; search again")
        return np.array([by_row[row] for row in rows.tolist()]).reshape(len(rows), self.model.size)

    def columns(self) -> list[str]:
        """Return the names of the metadata columns."""
        found = self._fetch(COLUMNS) if self._has_metadata() else []
        self._check_types(found, [str])
        return [name for (name,) in found]

    def root(self) -> str:
        """Return the folder that holds all images; empty if they are not files or share none."""
        query = 'select min(name collate "C"), max(name collate "C") from {table}'
        return common_root(*self._rows(query)[0])

    def select(self, conditions: Sequence[Condition]) -> Rows:
        """Return the rows that meet all conditions, in ascending order."""
        return select_rows(conditions, self.columns(), self.root(), self._fetch)

    def metadata(self, rows: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return the metadata of these rows."""
        found: dict[int, dict[str, str]] = {}
        if self._has_metadata():
            query = "select row, key, value from {table}_metadata where row = any(%s)"
            for row, key, value in self._typed([int, str, str], query, (list(rows),)):
                found.setdefault(row, {})[key] = value
        return found

    def set_metadata(self, values: Mapping[int, Mapping[str, str]]) -> None:
        """Set values of columns by row, in one transaction; other columns of these rows are kept."""
        cells = [(row, key, value) for row, found in values.items() for key, value in found.items()]
        lines = [(row, key, value, as_number(value)) for row, key, value in cells if key != LABEL]
        labels = [(value, row) for row, key, value in cells if key == LABEL]

        def update(connection: Any) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(self._sql("update {table} set label = %s where row = %s"), labels)
                cursor.executemany(
                    self._sql(
                        "insert into {table}_metadata values (%s, %s, %s, %s) on conflict (row, key) "
                        "do update set value = excluded.value, number = excluded.number"
                    ),
                    lines,
                )

        self._database.call(update)

    def find_by_name(self, names: Sequence[str]) -> dict[str, int]:
        """Return the rows of the images with these names."""
        return dict(self._rows("select name, row from {table} where name = any(%s)", (list(names),)))

    def images_without(self, column: str, *, after: int, count: int) -> list[IndexedImage]:
        """Return the first ``count`` images with a row above ``after`` that have no value in a column."""
        found = self._rows(
            "select row, name, label from {table} where row > %s and not exists "
            "(select from {table}_metadata as found where found.row = {table}.row and key = %s) "
            "order by row limit %s",
            (after, column, count),
        )
        return [IndexedImage(*each) for each in found]

    def _has_metadata(self) -> bool:
        """Return False for an index of an older version that was not written to since."""
        return bool(self._rows("select to_regclass(%s) is not null", (f"{self._table}_metadata",))[0][0])

    def _fetch(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query that is shared with SQLite; it has ? for a value."""
        named = query.format(items="{table}", metadata="{table}_metadata", alive="true")
        return self._rows(named.replace("?", "%s"), values)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _search(self, query: str, count: int, among: Rows | None) -> list[tuple[int, float]]:
        if among is not None:
            # The graph would return its nearest rows first and drop those that are not wanted.
            return self._rows(
                "select row, distance from (select row, vector <#> %s::vector as distance from {table} "
                "where row = any(%s) offset 0) as chosen order by distance, row limit %s",
                (query, among.tolist(), count),
            )
        # The graph returns at most ef_search rows, limited to 1,000 by pgvector; larger searches are exact.
        effort = min(1000, max(self._effort, count))

        def search(connection: Any) -> list[tuple[int, float]]:
            with connection.transaction():
                if count > effort:
                    connection.execute("set local enable_indexscan = off")
                connection.execute(f"set local hnsw.ef_search = {effort}")
                nearest = (
                    "select row, vector <#> %s::vector as distance from {table} order by distance limit %s"
                )
                return list(connection.execute(self._sql(nearest), (query, count)).fetchall())

        return self._database.call(search)

    def _set_up(self, model: ModelCard) -> None:
        if model.size > MAX_SIZE:
            raise UsageError(
                f"pgvector indexes vectors of size {MAX_SIZE} at most, the model's have size {model.size}; "
                "reduce it by whitening, or use an index directory"
            )

        def create(connection: Any) -> None:
            with connection.transaction():
                # Lock: concurrent creation of the same tables fails.
                connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (self._table,))
                for statement in SETUP:
                    connection.execute(self._sql(statement.replace("{size}", str(model.size))))
                connection.execute(
                    self._sql("insert into {table}_card values (0, %s) on conflict do nothing"),
                    (model.model_dump_json(),),
                )

        self._database.call(create)

    def _read_model(self) -> ModelCard:
        if not self._rows("select to_regclass(%s) is not null", (f"{self._table}_card",))[0][0]:
            raise UsageError(f"the database has no index {self._table}; create one with levelfield index")
        found = self._rows("select model from {table}_card where id = 0")
        try:
            return ModelCard.model_validate_json(found[0][0])
        except (IndexError, ValueError) as error:  # no row, or a card that is damaged or hostile
            raise RunError(
                f"the index {self._table} in the database has a damaged model card; create the index again"
            ) from error

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        text = self._sql(query)
        return self._database.call(lambda connection: list(connection.execute(text, values).fetchall()))

    def _typed(
        self, types: Sequence[type], query: str, values: tuple[Any, ...] = ()
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a query; raise RunError if a stranger's tables have other types."""
        found = self._rows(query, values)
        self._check_types(found, types)
        return found

    def _check_types(self, found: Sequence[tuple[Any, ...]], types: Sequence[type]) -> None:
        if any([type(value) for value in row] != list(types) for row in found):
            raise self._damaged()

    def _damaged(self) -> RunError:
        return RunError(f"the index {self._table} in the database is damaged; create the index again")

    def _run(self, query: str, values: tuple[Any, ...] = ()) -> int:
        text = self._sql(query)
        return self._database.call(lambda connection: int(connection.execute(text, values).rowcount))

    def _sql(self, text: str) -> str:
        # The table name was checked to be a plain word; all other values are query parameters.
        return text.replace("{table}", self._table)


def _split(address: str) -> tuple[str, str]:
    """Return the address without ``table=...``, and the table."""
    if not _ADDRESS.fullmatch(address) or not address.isprintable():
        raise UsageError(
            "the address of the database is not valid; write postgresql://USER@HOST:PORT/DATABASE, with "
            "special characters of names and password percent-encoded (@ as %40, / as %2F, % as %25)"
        )
    base, _, query = address.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    table = options.pop("table", TABLE)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", table):
        raise UsageError(f'"{table}" is not a valid table name; use lowercase letters, digits and _')
    return base + ("?" + urlencode(options, safe="/", quote_via=quote) if options else ""), table


def _text(vector: Floats) -> str:
    return "[" + ",".join(repr(float(value)) for value in vector) + "]"
