"""Tables of a catalog, and the check that a stranger's catalog has no others that compute something."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from levelfield.core.errors import RunError

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
create index if not exists items_by_label on items (label) where removed = 0;
create table if not exists metadata (
    row integer not null,
    key text not null,
    value text not null,
    number real,
    primary key (row, key)
) without rowid;
create index if not exists metadata_by_value on metadata (key, value);
create index if not exists metadata_by_number on metadata (key, number);
"""


def check_plain(database: sqlite3.Connection, path: Path) -> None:
    """Raise RunError for views, triggers and computed columns: reading one may never end."""
    odd = (
        "select 1 from sqlite_master "
        "where type not in ('table', 'index') or type = 'table' and coalesce(rootpage, 0) = 0 limit 1"
    )
    computed = "select 1 from pragma_table_xinfo(?) where hidden <> 0 limit 1"
    found = [database.execute(odd), *(database.execute(computed, (t,)) for t in ("items", "metadata"))]
    if any(rows.fetchone() for rows in found):
        database.close()
        raise RunError(
            f"{path} holds views, triggers or computed columns, which no index has; it was changed, so "
            "create the index again"
        )
