"""Your own images, with one folder per class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import Dataset
from levelfield.data._listing import class_ids, from_files

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
_PARTS = {
    "train": "train",
    "validation": "validation",
    "val": "validation",
    "valid": "validation",
    "test": "test",
}


@register("folder")
def folder(*, root: str, layout: Literal["classes", "splits"] = "classes") -> Dataset:
    """Your own images: one folder per class, optionally inside folders train, validation and test.

    Classes are in natural order of their folder names (2 before 10). Images may be in subfolders of their
    class. With ``layout="splits"``, ``root`` contains ``train``, ``test`` and optionally ``validation``, each
    with one folder per class.
    """
    top = Path(root)
    if not top.is_dir():
        raise UsageError(
            f"folder: {root} is not a folder; set root to the folder with one subfolder per class"
        )
    parts = {"": top} if layout == "classes" else _split_folders(top)
    listed = [(part, file, name) for part, below in parts.items() for file, name in _images(below)]
    classes = sorted({name for *_, name in listed}, key=_natural)
    marks = np.array([part for part, *_ in listed])
    ignored = sum(1 for entry in top.rglob("*") if entry.is_file()) - len(listed)
    return from_files(
        "folder",
        top,
        [file.relative_to(top).as_posix() for _, file, _ in listed],
        class_ids([name for *_, name in listed], classes),
        classes,
        is_test=None if layout == "classes" else marks == "test",
        is_validation=marks == "validation" if "validation" in marks else None,
        notes=[f"{ignored} files that are not images were left out"] if ignored else [],
    )


def _split_folders(top: Path) -> dict[str, Path]:
    parts = {
        _PARTS[f.name.lower()]: f for f in sorted(top.iterdir()) if f.name.lower() in _PARTS and f.is_dir()
    }
    missing = {"train", "test"} - parts.keys()
    if missing:
        raise UsageError(
            f'folder: {top} has no folder {min(missing)}; layout "splits" needs train and test, '
            'layout "classes" needs one folder per class'
        )
    return parts


def _images(top: Path) -> list[tuple[Path, str]]:
    """Return the image files below ``top`` with their class names, in the same order on every system."""
    folders = [f for f in sorted(top.iterdir()) if f.is_dir() and not f.name.startswith(".")]
    if not folders:
        raise UsageError(f"folder: {top} has no subfolders; put the images of each class into one")
    listed = []
    for below in folders:
        files = [f for f in sorted(below.rglob("*")) if f.suffix.lower() in SUFFIXES and f.is_file()]
        files = [f for f in files if not f.name.startswith(".")]
        if not files:
            raise UsageError(f"folder: class folder {below} has no images; remove it or add images")
        listed += [(file, below.name) for file in files]
    return listed


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders numbers by their value."""
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in re.split(r"(\d+)", name) if p]
