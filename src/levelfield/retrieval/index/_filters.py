"""Filters of a search: conditions on the label, folder, date or any other column of the images.

A condition is text, such as ``label=cat``, ``folder=2019/rome``, ``date>=2020-05`` or ``iso<400``. It is
parsed here and never becomes part of a database query: the queries are fixed, values are their parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from levelfield.core.errors import UsageError

Operation = Literal["=", "!=", ">=", "<=", ">", "<"]
LABEL, FOLDER, DATE = "label", "folder", "date"
BUILT_IN = (LABEL, FOLDER)  # columns of every index; others come from its metadata
MAX_CONDITIONS = 50
MAX_TEXT = 1000  # characters of a condition
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*", re.ASCII)


@dataclass(frozen=True)
class Condition:
    """Condition on one column.

    Attributes:
        column: ``label``, ``folder``, ``date`` or a column of the metadata.
        operation: Comparison.
        values: Values to compare with. ``=`` is true for any of them, ``!=`` for none of them.
    """

    column: str
    operation: Operation
    values: tuple[str, ...]


def parse_filters(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Return the conditions; all of them must be true.

    Several ``=`` conditions on one column become one: any of the values.

    Example:
        >>> parse_filters(["label=cat", "label=dog", "date >= 2020"])
        (Condition(column='label', operation='=', values=('cat', 'dog')),
         Condition(column='date', operation='>=', values=('2020',)))
    """
    if isinstance(texts, str):
        raise UsageError('filters are a list of conditions; write ["label=cat"]')
    if len(texts) > MAX_CONDITIONS:
        raise UsageError(f"a search has {len(texts)} filters; give at most {MAX_CONDITIONS}")
    found: dict[tuple[str, str], list[str]] = {}
    for number, text in enumerate(texts):
        column, operation, value = _parse(text)
        key = (column, operation if operation in {"=", "!="} else f"{operation} {number}")
        found.setdefault(key, []).append(value)
    return tuple(
        Condition(column, cast("Operation", operation.split()[0]), tuple(values))
        for (column, operation), values in found.items()
    )


def as_number(text: str) -> float | None:
    """Return the number that a text is; None if it is not one.

    Example:
        >>> as_number(" 1e3 "), as_number("2020-05-01"), as_number("nan")
        (1000.0, None, None)
    """
    if not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) < 1e300 else None


def _parse(text: str) -> tuple[str, Operation, str]:
    if not isinstance(text, str) or len(text) > MAX_TEXT or "\0" in text:
        raise UsageError(f"a filter is text of at most {MAX_TEXT} characters, such as label=cat")
    found = re.match(r"([^=!<>]+)(>=|<=|!=|=|>|<)(.*)", text, re.DOTALL)
    column = found[1].strip() if found else ""
    if found is None or not column:
        shown = " ".join(get_args(Operation))
        raise UsageError(
            f'"{text[:80]}" is not a filter; write column, comparison ({shown}) and value, such as label=cat'
        )
    operation = cast("Operation", found[2])
    if column in BUILT_IN and operation not in {"=", "!="}:
        raise UsageError(f'"{text[:80]}" orders by {column}; compare {column} with = or !=')
    return column, operation, found[3].strip()
