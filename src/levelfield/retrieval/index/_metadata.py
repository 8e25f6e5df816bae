"""Metadata of the images of an index: columns of a CSV table, and the date of each image file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.data.capture_date import capture_date
from levelfield.retrieval.index._filters import DATE, FOLDER
from levelfield.retrieval.index._sources import absolute_path
from levelfield.retrieval.index._store import VectorStore

MAX_COLUMNS = 200
MAX_VALUE = 10_000  # characters
CHUNK = 500
PATH = "path"


def add_metadata(store: VectorStore, table: str | Path) -> tuple[int, int]:
    """Store the columns of a CSV table for the images that it names; values of earlier tables are replaced.

    The column ``label`` replaces the labels of these images.

    Args:
        store: Index that is open for writing.
        table: CSV file with the column ``path``, absolute or relative to the table. Empty cells are skipped.

    Returns:
        Number of images that got values, and number of lines whose image the index does not hold.
    """
    done = missing = 0
    lines = _read_table(Path(table))
    while part := list(islice(lines, CHUNK)):
        rows = store.find_by_name([name for name, _ in part])
        values = {rows[name]: cells for name, cells in part if name in rows}
        store.set_metadata(values)
        done += len(values)
        missing += sum(name not in rows for name, _ in part)
    return done, missing


def add_dates(store: VectorStore) -> None:
    """Store the date of every image file that has none: when it was taken, or else when it was last changed.

    A date from a CSV table is kept.
    """
    after = -1
    while part := store.images_without(DATE, after=after, count=CHUNK):
        store.set_metadata({image.row: {DATE: _file_date(image.name)} for image in part})
        after = part[-1].row


def _file_date(name: str) -> str:
    """Return the date as ``YYYY-MM-DD HH:MM:SS``; empty if there is no such file."""
    path = Path(name)
    if not path.is_absolute():
        return ""
    with suppress(OSError, ValueError, OverflowError):
        changed = datetime.fromtimestamp(path.stat().st_mtime, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
        return capture_date(path) or changed
    return ""


def _read_table(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, restval="")
            columns = [name for name in reader.fieldnames or () if name]
            _check_columns(file, columns)
            kept = [name for name in columns if name != PATH]
            for fields in reader:
                cells = {name: (fields[name] or "").strip() for name in kept}
                for name, value in cells.items():
                    if len(value) > MAX_VALUE or "\0" in value:
                        raise UsageError(
                            f"{file}, line {reader.line_num}: {name} has over {MAX_VALUE} characters or a "
                            "zero byte; shorten it"
                        )
                name = str(absolute_path(file.parent / fields[PATH].strip()))
                yield name, {name: value for name, value in cells.items() if value}
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}; check the path") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} is not a UTF-8 CSV file ({error}); save it as one") from error


def _check_columns(file: Path, columns: Sequence[str]) -> None:
    if PATH not in columns:
        raise UsageError(f'{file} has no column "{PATH}"{did_you_mean(PATH, columns)}')
    if len(columns) > MAX_COLUMNS:
        raise UsageError(f"{file} has {len(columns)} columns; keep at most {MAX_COLUMNS}")
    for name in columns:
        if name == FOLDER:
            raise UsageError(f"{file} has a column {name}, which every index has already; rename the column")
        if name != name.strip() or any(sign in name for sign in "=!<>\0") or len(name) > 100:
            raise UsageError(
                f'{file} has a column "{name[:100]}"; use names of at most 100 characters without = ! < >'
            )
