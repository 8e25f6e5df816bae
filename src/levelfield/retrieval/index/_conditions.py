"""Rows that meet the conditions of a filter, by fixed queries whose values are parameters.

The same queries serve SQLite and PostgreSQL: a table ``metadata`` (row, key, value, number) has one line per
image and column. ``number`` is the value as a number; null if it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.retrieval.index._filters import BUILT_IN, FOLDER, LABEL, Condition, as_number
from levelfield.retrieval.index._vectors import Rows

Fetch = Callable[[str, tuple[Any, ...]], Sequence[tuple[Any, ...]]]

COLUMNS = """
with recursive names(name) as (
    select min(key) from {metadata}
    union all
    select (select min(key) from {metadata} where key > names.name) from names where names.name is not null
)
select name from names where name is not null
"""  # distinct keys, each found through the index; a plain distinct reads every line
ALL_ROWS = "select row from {items} where {alive}"
WITH_LABEL = "select row from {items} where {alive} and label = ?"
IN_FOLDER = "select row from {items} where {alive} and substr(name, 1, length(?)) = ?"
BELOW_ROOT = "select row from {items} where {alive} and replace(substr(name, ?), ?, '') <> substr(name, ?)"
EQUAL_TEXT = "select row from {metadata} where key = ? and value = ?"
EQUAL_NUMBER = "select row from {metadata} where key = ? and number = ?"
# Text is compared by its beginning, so that date<=2020 includes all of 2020.
ORDERED_TEXT = {
    ">=": "select row from {metadata} where key = ? and number is null and substr(value, 1, ?) >= ?",
    "<=": "select row from {metadata} where key = ? and number is null and substr(value, 1, ?) <= ?",
    ">": "select row from {metadata} where key = ? and number is null and substr(value, 1, ?) > ?",
    "<": "select row from {metadata} where key = ? and number is null and substr(value, 1, ?) < ?",
}
ORDERED_NUMBER = {
    ">=": "select row from {metadata} where key = ? and number >= ?",
    "<=": "select row from {metadata} where key = ? and number <= ?",
    ">": "select row from {metadata} where key = ? and number > ?",
    "<": "select row from {metadata} where key = ? and number < ?",
}


def select_rows(conditions: Sequence[Condition], columns: Sequence[str], root: str, fetch: Fetch) -> Rows:
    """Return the rows that meet all conditions, in ascending order.

    Args:
        conditions: Conditions from :func:`parse_filters`.
        columns: Columns of the metadata.
        root: Folder that holds all images; see :func:`common_root`.
        fetch: Function that runs one of the queries above with its values.
    """
    rows: Rows | None = None
    for condition in conditions:
        if condition.column not in {*BUILT_IN, *columns}:
            known = [*BUILT_IN, *columns]
            wrong = condition.column[:80]
            raise UsageError(f'the index has no column "{wrong}"{did_you_mean(wrong, known)}')
        if condition.operation == "!=":
            equal = _matching(Condition(condition.column, "=", condition.values), root, fetch)
            found = np.setdiff1d(_rows(fetch(ALL_ROWS, ())), equal)
        else:
            found = _matching(condition, root, fetch)
        rows = found if rows is None else np.intersect1d(rows, found, assume_unique=True)
    return np.empty(0, dtype=np.int64) if rows is None else rows


def _matching(condition: Condition, root: str, fetch: Fetch) -> Rows:
    parts = [_one_value(condition, value, root, fetch) for value in condition.values]
    return np.unique(np.concatenate(parts))


def _one_value(condition: Condition, value: str, root: str, fetch: Fetch) -> Rows:
    key, operation, number = condition.column, condition.operation, as_number(value)
    if key == LABEL:
        return _rows(fetch(WITH_LABEL, (value,)))
    if key == FOLDER:
        return _in_folder(value, root, fetch)
    if operation == "=":
        found = _rows(fetch(EQUAL_TEXT, (key, value)))
        return found if number is None else np.concatenate([found, _rows(fetch(EQUAL_NUMBER, (key, number)))])
    found = _rows(fetch(ORDERED_TEXT[operation], (key, len(value), value)))
    return (
        found
        if number is None
        else np.concatenate([found, _rows(fetch(ORDERED_NUMBER[operation], (key, number)))])
    )


def _in_folder(value: str, root: str, fetch: Fetch) -> Rows:
    """Return the rows in an absolute folder, or in a folder of this name below ``root``."""
    if value.startswith("/"):
        start = value.rstrip("/") + "/"
        return _rows(fetch(IN_FOLDER, (start, start)))
    name = value.strip("/")
    if not name:
        return _rows(fetch(ALL_ROWS, ()))
    first = len(root.rstrip("/")) + 1  # counted from 1, at the slash that ends the root
    return _rows(fetch(BELOW_ROOT, (first, f"/{name}/", first)))


def _rows(found: Sequence[tuple[Any, ...]]) -> Rows:
    return np.array([row for (row,) in found], dtype=np.int64)


def common_root(first: str | None, last: str | None) -> str:
    """Return the folder that holds all images, given the first and the last of their sorted names.

    Example:
        >>> common_root("/photos/a/1.jpg", "/photos/b/2.jpg"), common_root("birds:0", "birds:9")
        ('/photos', '')
    """
    if not first or not last or not (first.startswith("/") and last.startswith("/")):
        return ""
    shared = []
    for one, two in zip(first.split("/")[:-1], last.split("/")[:-1], strict=False):
        if one != two:
            break
        shared.append(one)
    return "/".join(shared)
