"""Your own images, with one folder per class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import Dataset
from levelfield.data._listing import class_ids, from_files, shuffle_classes
from levelfield.data.folder_scan import (
    PARTS,
    SUFFIXES,
    find_classes,
    is_split_already,
    scan_folder,
    split_names,
)

__all__ = ["SUFFIXES", "folder"]


@register("folder")
def folder(*, root: str, layout: Literal["classes", "splits"] = "classes", seed: int | None = 0) -> Dataset:
    """Your own images: one folder per class, optionally inside folders train, validation and test.

    Split plans cut the classes in a random order, drawn from ``seed``: neighbors in the alphabet are often
    alike. A new class does not change the order of the others. ``seed: null`` keeps the natural order of the
    folder names (2 before 10). Images may be in subfolders of their class. With ``layout="splits"``, ``root``
    contains ``train``, ``test`` and optionally ``validation``, each with one folder per class.
    """
    top = Path(root)
    if not top.is_dir():
        raise UsageError(
            f"folder: {root} is not a folder; set root to the folder with one subfolder per class"
        )
    if layout == "classes":
        _check_layout(top)
    parts = {"": top} if layout == "classes" else _split_folders(top)
    scans = {part: scan_folder(below) for part, below in parts.items()}
    for scan in scans.values():
        scan.check()
    listed = [
        (part, file, name)
        for part, scan in scans.items()
        for name, files in scan.images.items()
        for file in files
    ]
    classes = sorted({name for *_, name in listed}, key=_natural)
    if layout == "classes" and seed is not None:
        classes = shuffle_classes(classes, seed)
    marks = np.array([part for part, *_ in listed])
    return from_files(
        "folder",
        top,
        [file.relative_to(top).as_posix() for _, file, _ in listed],
        class_ids([name for *_, name in listed], classes),
        classes,
        is_test=None if layout == "classes" else marks == "test",
        is_validation=marks == "validation" if "validation" in marks else None,
        notes=[note for scan in scans.values() for note in scan.notes],
    )


def _check_layout(top: Path) -> None:
    """Raise UsageError if the classes seem to be elsewhere: in train and test folders, or further down."""
    if is_split_already(top):
        raise UsageError(
            f"folder: {top} has folders train and test; set `layout: splits`, or give one of them as root"
        )
    if len(parts := split_names(top)) > 1:
        raise UsageError(
            f"folder: {top} has folders {' and '.join(parts)}, which are no classes; name them train and "
            f"test and set `layout: splits`, or give one of them as root, such as {top / parts[0]}"
        )
    if (nearer := find_classes(top)) is not None:
        raise UsageError(
            f"folder: the subfolders of {top} hold no classes, those of {nearer} do; did you mean {nearer}?"
        )


def _split_folders(top: Path) -> dict[str, Path]:
    parts = {
        PARTS[f.name.lower()]: f for f in sorted(top.iterdir()) if f.name.lower() in PARTS and f.is_dir()
    }
    missing = {"train", "test"} - parts.keys()
    if missing:
        raise UsageError(
            f'folder: {top} has no folder {min(missing)}; layout "splits" needs train and test, '
            'layout "classes" needs one folder per class'
        )
    return parts


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders numbers by their value."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", name) if p]
