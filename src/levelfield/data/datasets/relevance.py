"""Your own benchmark: a folder of images, and a JSON or CSV file with what is relevant to each query."""

from __future__ import annotations

import csv as csv_format
import json
from pathlib import Path, PurePosixPath
from typing import Any

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.data import register
from levelfield.data._dataset import Dataset
from levelfield.data.folder_scan import image_files
from levelfield.data.listed_queries import Box, ListedQuery, listed_dataset

KEYS = ("image", "relevant", "ignored", "group", "box")
COLUMNS = ("query", "image", "relevance")
_RELEVANT, _IGNORED = {"relevant", "1"}, {"ignored", "-1"}


@register("relevance")
def relevance(*, file: str, root: str | None = None, train: str | None = None) -> Dataset:
    """Your own images and queries: a JSON or CSV file lists what is relevant to each query.

    JSON: ``{"queries": [{"image": "q/1.jpg", "relevant": ["a.jpg"], "ignored": ["b.jpg"], "group": "tower",
    "box": [10, 20, 200, 180]}], "gallery": ["a.jpg", "b.jpg"]}``. All but ``image`` and ``relevant`` may be
    left out. CSV: columns query, image, relevance ("relevant" or "ignored"), and optionally group; one line
    for each pair.

    Without ``gallery``, all images below ``root`` are searched, except those that are only queries. Queries
    of one group are one unit of the statistics. ``root`` defaults to the folder of the file. ``train`` is a
    folder of other images to train on, one subfolder per class.
    """
    table = Path(file)
    top = table.parent if root is None else Path(root)
    if not top.is_dir():
        raise UsageError(f"relevance: {top} is not a folder; set root to the folder of the images")
    queries, gallery = read_relevance(table)
    if gallery is None:
        gallery = _searched(top, queries, train)
    empty = [query.image for query in queries if not query.relevant]
    notes = [f"{len(empty)} queries list no relevant image and are left out ({empty[0]})"] if empty else []
    return listed_dataset("relevance", top, searched=gallery, queries=queries, train=train, notes=notes)


def read_relevance(table: Path) -> tuple[list[ListedQuery], list[str] | None]:
    """Return the queries in a JSON or CSV file, and the names that are searched; None if it lists none."""
    return _read_csv(table) if table.suffix.lower() == ".csv" else _read_json(table)


def _searched(top: Path, queries: list[ListedQuery], train: str | None) -> list[str]:
    """Return all images below the root that are listed, or are neither queries nor training images."""
    listed = {path for query in queries for path in (*query.relevant, *query.ignored)}
    only_queries = {query.image for query in queries} - listed
    inside = None if train is None else Path(train).resolve()
    return [
        path
        for found in image_files(top)
        if (path := found.relative_to(top).as_posix()) not in only_queries
        and not (inside is not None and found.resolve().is_relative_to(inside))
    ]


def _read_json(table: Path) -> tuple[list[ListedQuery], list[str] | None]:
    try:
        content = json.loads(_text(table))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"relevance: {table} is not JSON ({error}); correct it") from error
    if not isinstance(content, dict) or not isinstance(content.get("queries"), list):
        raise UsageError(f'relevance: {table} has no list "queries"; see docs/datasets.md')
    for key in content:
        if key not in ("queries", "gallery"):
            raise UsageError(
                f'relevance: {table} has an unknown key "{key}"{did_you_mean(key, ("queries", "gallery"))}'
            )
    queries = [_json_query(entry, n, table) for n, entry in enumerate(content["queries"], start=1)]
    gallery = content.get("gallery")
    return queries, None if gallery is None else _paths(gallery, "gallery", table)


def _json_query(entry: Any, number: int, table: Path) -> ListedQuery:
    where = f"query {number}"
    if not isinstance(entry, dict):
        raise UsageError(f"relevance: {table}, {where} is not an object; see docs/datasets.md")
    for key in entry:
        if key not in KEYS:
            raise UsageError(
                f'relevance: {table}, {where} has an unknown key "{key}"{did_you_mean(key, KEYS)}'
            )
    for key in ("image", "relevant"):
        if key not in entry:
            raise UsageError(f'relevance: {table}, {where} has no "{key}"; add it')
    return ListedQuery(
        image=_path(entry["image"], where, table),
        relevant=tuple(_paths(entry["relevant"], f"{where}, relevant", table)),
        ignored=tuple(_paths(entry.get("ignored", []), f"{where}, ignored", table)),
        group=str(entry.get("group", "")),
        box=_box(entry.get("box"), where, table),
    )


def _box(box: Any, where: str, table: Path) -> Box | None:
    if box is None:
        return None
    plain = isinstance(box, list) and len(box) == 4
    if not plain or not all(isinstance(e, (int, float)) and abs(e) < 1e6 for e in box):
        raise UsageError(f"relevance: {table}, {where}: box is not [left, top, right, bottom]; correct it")
    left, top, right, bottom = map(float, box)
    if left >= right or top >= bottom:
        raise UsageError(f"relevance: {table}, {where}: box {box} is empty; give left < right, top < bottom")
    return left, top, right, bottom


def _read_csv(table: Path) -> tuple[list[ListedQuery], None]:
    try:
        reader = csv_format.DictReader(_text(table).splitlines(), restkey="", restval="")
        header = list(reader.fieldnames or [])
        rows = [(reader.line_num, fields) for fields in reader]
    except csv_format.Error as error:
        raise UsageError(f"relevance: {table} is not a CSV file ({error}); save it as one") from error
    for column in COLUMNS:
        if column not in header:
            raise UsageError(f'relevance: {table} has no column "{column}"{did_you_mean(column, header)}')
    lists: dict[str, tuple[list[str], list[str]]] = {}
    groups: dict[str, str] = {}
    for line, fields in rows:
        where = f"line {line}"
        query = _path(fields["query"].strip(), where, table)
        kept, ignored = lists.setdefault(query, ([], []))
        group = fields.get("group", "").strip()
        if groups.setdefault(query, group) != group:
            raise UsageError(f"relevance: {table}, {where}: {query} has two groups; give it one")
        word = fields["relevance"].strip().lower()
        if word not in _RELEVANT | _IGNORED:
            raise UsageError(f'relevance: {table}, {where}: relevance is "{word}"; write relevant or ignored')
        (kept if word in _RELEVANT else ignored).append(_path(fields["image"].strip(), where, table))
    return [
        ListedQuery(query, tuple(kept), tuple(ignored), groups[query])
        for query, (kept, ignored) in lists.items()
    ], None


def _text(table: Path) -> str:
    try:
        if table.exists() and not table.is_file() and not table.is_dir():
            raise UsageError(f"relevance: {table} is a pipe or a device; give a regular file")
        return table.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"relevance: {table} is not UTF-8 text ({error}); save it as UTF-8") from error
    except OSError as error:
        raise UsageError(
            f"relevance: cannot read {table}: {error.strerror}; check the option file"
        ) from error


def _paths(values: Any, where: str, table: Path) -> list[str]:
    if not isinstance(values, list):
        raise UsageError(f"relevance: {table}, {where} is not a list of paths; give one")
    return [_path(value, where, table) for value in values]


def _path(value: Any, where: str, table: Path) -> str:
    """Return a path in its normal form; a path that leads out of the root is refused."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise UsageError(f"relevance: {table}, {where}: {value!r} is not a path; give one")
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts:
        raise UsageError(f'relevance: {table}, {where}: "{value}" leads out of the root; correct it')
    return path.as_posix()
