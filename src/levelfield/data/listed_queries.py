"""Datasets that list what is relevant to each query, and what is to be ignored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data._dataset import GALLERY, QUERY, Dataset, Rows
from levelfield.data._listing import from_files

Box = tuple[float, float, float, float]
OTHER = "other images"  # class of searched images that no query lists


@dataclass(frozen=True)
class ListedQuery:
    """Query with its lists.

    Attributes:
        image: Path of the image, relative to the root of the dataset.
        relevant: Paths of the relevant images.
        ignored: Paths of images that are neither right nor wrong.
        group: Name of the group of similar queries, such as a landmark. It is the unit of the statistics.
        box: Part of the image that is the query (left, top, right, bottom, in pixels); None for all of it.
    """

    image: str
    relevant: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    group: str = ""
    box: Box | None = None


def listed_dataset(
    name: str,
    root: Path,
    *,
    searched: Sequence[str],
    queries: Sequence[ListedQuery],
    train: str | None = None,
    notes: Sequence[str] = (),
    official: bool = False,
) -> Dataset:
    """Return the dataset of these queries; the lists are checked.

    Rows are training images, then searched images, then queries. A query that is searched ignores itself.

    Args:
        name: Registered name of the dataset.
        root: Folder that paths start from.
        searched: Paths of the images that are searched.
        queries: Queries; one image may be several queries, with different boxes.
        train: Folder of training images with one subfolder per class; None for a test set only.
        notes: See :class:`levelfield.data.Dataset`.
        official: See :func:`levelfield.data.from_files`.
    """
    if not queries or not searched:
        raise UsageError(f"{name}: there are no {'images to search' if queries else 'queries'}; add some")
    row = {path: number for number, path in enumerate(searched)}
    if len(row) < len(searched):
        twice = next(path for path, count in Counter(searched).items() if count > 1)
        raise UsageError(f"{name}: {twice} is listed twice among the searched images; list it once")
    relevant, ignored = [], []
    for number, query in enumerate(queries):
        pairs = listed_rows(query, row, name)
        relevant += [(number, item) for item in pairs[0]]
        ignored += [(number, item) for item in pairs[1]]
    if not relevant:
        raise UsageError(f"{name}: no query has a relevant image; list some")
    groups = [query.group or f"query {number}" for number, query in enumerate(queries, start=1)]
    owners = _owners(len(searched), queries, groups, row)
    order = [*dict.fromkeys(groups), *([OTHER] if OTHER in owners else [])]
    trained = _read_training(train)
    before = len(trained.paths)
    code = {group: len(trained.class_names) + number for number, group in enumerate(order)}
    roles = np.repeat(np.array([0, GALLERY, QUERY], np.int8), (before, len(searched), len(queries)))
    boxes = np.full((len(roles), 4), np.nan)
    for number, query in enumerate(queries):
        if query.box is not None:
            boxes[before + len(searched) + number] = query.box
    return from_files(
        name,
        root,
        [*trained.paths, *searched, *(query.image for query in queries)],
        [*trained.labels, *(code[group] for group in (*owners, *groups))],
        [*trained.class_names, *order],
        is_test=roles > 0,
        roles=roles,
        notes=notes,
        official=official,
        relevant=_pairs(relevant, before, len(searched)),
        ignored=_pairs(ignored, before, len(searched)),
        boxes=None if np.isnan(boxes).all() else boxes,
    )


def listed_rows(query: ListedQuery, row: Mapping[str, int], name: str) -> tuple[list[int], list[int]]:
    """Return the rows of a query's relevant and ignored images. A query that is searched ignores itself.

    Args:
        query: Query.
        row: Row of each searched image.
        name: Name of the dataset or the file, for errors.
    """
    found = []
    for listed, what in ((query.relevant, "relevant"), (query.ignored, "ignored")):
        strange = next((path for path in listed if path not in row), None)
        if strange is not None:
            raise UsageError(
                f'{name}: query {query.image} lists "{strange}" as {what}, which is not among the '
                f"{len(row):,} searched images; correct the list, or add the image"
            )
        found.append(sorted({row[path] for path in listed}))
    both = sorted(set(found[0]) & set(found[1]))
    if both:
        path = next(path for path, number in row.items() if number == both[0])
        raise UsageError(f"{name}: query {query.image} lists {path} as relevant and as ignored; remove one")
    if query.image in row:  # a query does not find itself
        found[0] = [item for item in found[0] if item != row[query.image]]
        found[1] = sorted({*found[1], row[query.image]})
    return found[0], found[1]


def _owners(
    count: int, queries: Sequence[ListedQuery], groups: Sequence[str], row: dict[str, int]
) -> list[str]:
    """Return the group of each searched image: that of the first query that lists it as relevant."""
    owners = [OTHER] * count
    for query, group in zip(queries, groups, strict=True):
        for path in query.relevant:
            if owners[row[path]] == OTHER:
                owners[row[path]] = group
    return owners


def _pairs(pairs: list[tuple[int, int]], before: int, searched: int) -> Rows:
    """Return row numbers of the dataset for pairs of a query and a searched image."""
    offset = np.array([before + searched, before], dtype=np.int64)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2) + offset


@dataclass(frozen=True)
class _Training:
    paths: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()
    class_names: tuple[str, ...] = ()


def _read_training(folder: str | None) -> _Training:
    if folder is None:
        return _Training()
    from levelfield.data import FileImages
    from levelfield.data.datasets.folder import folder as read_folder

    found = read_folder(root=folder)
    assert isinstance(found.images, FileImages), "a folder has image files"
    root = found.images.root.absolute()
    return _Training(
        tuple(str(root / path) for path in found.images.paths),
        tuple(found.labels.tolist()),
        tuple(f"train {name}" for name in found.class_names),
    )
