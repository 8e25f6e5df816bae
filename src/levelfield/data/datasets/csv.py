"""Your own images, as a table of paths and labels."""

from __future__ import annotations

import csv as csv_format
from pathlib import Path

import numpy as np

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.data import register
from levelfield.data._dataset import GALLERY, QUERY, Dataset
from levelfield.data._listing import class_ids, from_files

COLUMNS = ("path", "label", "split", "is_query", "is_gallery")
_SPLITS = {
    "train": "train",
    "validation": "validation",
    "val": "validation",
    "valid": "validation",
    "test": "test",
}
MAX_DIGITS = 4000  # of a label that is a number; Python converts no more
_YES, _NO = {"1", "1.0", "true", "yes"}, {"0", "0.0", "false", "no", ""}

Row = tuple[int, dict[str, str]]  # line number and fields


@register("csv")
def csv(*, file: str, root: str | None = None) -> Dataset:
    """Your own images: a CSV file with columns path and label, and optionally split, is_query, is_gallery.

    - ``path``: absolute, or relative to ``root``, which defaults to the folder of the CSV file.
    - ``label``: any text. Classes are in numeric order if all labels are numbers, else in alphabetic order.
    - ``split``: train, validation or test.
    - ``is_query``, ``is_gallery``: for test images; 1, true or yes, else 0, false, no or empty.

    Other columns are ignored.
    """
    table = Path(file)
    rows = _read(table)
    labels = [fields["label"] for _, fields in rows]
    order = _order(set(labels))
    columns = rows[0][1].keys()
    split = _splits(table, rows) if "split" in columns else None
    is_test = None if split is None or "test" not in split else split == "test"
    roles = None
    if {"is_query", "is_gallery"} & columns:
        roles = QUERY * _flags(table, rows, "is_query") + GALLERY * _flags(table, rows, "is_gallery")
        _check_roles(table, roles, is_test)
    unused = sorted(columns - set(COLUMNS))
    return from_files(
        "csv",
        Path(root) if root is not None else table.parent,
        [fields["path"] for _, fields in rows],
        class_ids(labels, order),
        order,
        is_test=is_test,
        is_validation=split == "validation" if split is not None and "validation" in split else None,
        roles=roles,
        notes=[f"ignored columns: {', '.join(unused)}"] if unused else [],
    )


def _read(table: Path) -> list[Row]:
    if table.exists() and not table.is_file() and not table.is_dir():
        raise UsageError(f"csv: {table} is a pipe or a device, which may never end; give a regular file")
    try:
        with table.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv_format.DictReader(stream, restkey="", restval="")
            header = [column or "" for column in reader.fieldnames or []]
            rows = [(reader.line_num, {k: v.strip() for k, v in fields.items() if k}) for fields in reader]
    except OSError as error:
        raise UsageError(f"csv: cannot read {table}: {error.strerror}; check the option file") from error
    except (UnicodeDecodeError, csv_format.Error) as error:
        raise UsageError(f"csv: {table} is not a UTF-8 CSV file ({error}); save it as one") from error
    for column in ("path", "label"):
        if column not in header:
            raise UsageError(f'csv: {table} has no column "{column}"{did_you_mean(column, header)}')
    if not rows:
        raise UsageError(f"csv: {table} has no rows below its header; add some")
    for line, fields in rows:
        for column in ("path", "label"):
            if not fields[column]:
                raise UsageError(
                    f"csv: {table}, line {line}: {column} is empty; fill it in or remove the line"
                )
    return rows


def _order(labels: set[str]) -> list[str]:
    if all(label.removeprefix("-").isdecimal() and len(label) < MAX_DIGITS for label in labels):
        return sorted(labels, key=lambda label: (int(label), label))
    return sorted(labels)


def _splits(table: Path, rows: list[Row]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    parts = []
    for line, fields in rows:
        part = _SPLITS.get(fields["split"].lower())
        if part is None:
            raise UsageError(
                f'csv: {table}, line {line}: unknown split "{fields["split"]}"; '
                "write train, validation or test"
            )
        parts.append(part)
    return np.array(parts)


def _flags(table: Path, rows: list[Row], column: str) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    flags = []
    for line, fields in rows:
        value = fields.get(column, "").lower()
        if value not in _YES | _NO:
            raise UsageError(f'csv: {table}, line {line}: {column} is "{value}"; write 1 or 0')
        flags.append(value in _YES)
    return np.array(flags, dtype=np.int8)


def _check_roles(table: Path, roles: np.ndarray[tuple[int], np.dtype[np.int8]], is_test: object) -> None:
    if is_test is None:
        raise UsageError(
            f"csv: {table} marks queries or gallery images but no test images; "
            "mark them as test in the column split"
        )
    if not (roles & QUERY).any() or not (roles & GALLERY).any():
        raise UsageError(
            f"csv: {table} marks only queries or only gallery images; mark both, with is_query and is_gallery"
        )
    if (roles[~np.asarray(is_test, dtype=bool)] > 0).any():
        raise UsageError(f"csv: {table} marks training images as query or gallery; mark test images only")
