"""Scan of a folder of your own images: its classes, what is wrong with it, and how to fix that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from levelfield.core.errors import UsageError, printable
from levelfield.data._image_files import HEIC_PACKAGE, HEIC_SUFFIXES

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
PARTS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "val": "validation",
    "valid": "validation",
    "test": "test",
    "testing": "test",
}
_SHOWN = 5  # names that a message lists
_DEPTH = 3  # folders that the search for the classes goes down


@dataclass(frozen=True)
class FolderScan:
    """Files of a folder with one subfolder per class.

    Attributes:
        top: The folder.
        images: Image files of every class folder, by class; empty lists for classes without images.
        unread: Photos in a format that needs another package, such as HEIC.
        others: Number of files that are no images.
        links: Links to folders below the classes; they are not followed.
        loose: Images directly in the folder, in no class.
    """

    top: Path
    images: dict[str, list[Path]]
    unread: tuple[Path, ...]
    others: int
    links: tuple[Path, ...]
    loose: tuple[Path, ...]

    @property
    def empty(self) -> list[str]:
        """Classes without images."""
        return [name for name, files in self.images.items() if not files]

    @property
    def notes(self) -> list[str]:
        """Findings that do not stop a comparison, one sentence each, with the fix."""
        notes = []
        if self.others:
            notes.append(f"{self.others} files that are not images were left out")
        if self.loose:
            notes.append(
                f"{_count(self.loose, 'image is', 'images are')} in no class folder and left out "
                f"({shown_names(file.name for file in self.loose)}); move {_them(self.loose)} into a class"
            )
        if self.links:
            shown = shown_names(link.relative_to(self.top).as_posix() for link in self.links)
            many = "links to folders inside of classes were"
            notes.append(
                f"{_count(self.links, 'link to a folder inside of a class was', many)} not followed "
                f"({shown}); copy the images, or link to the files"
            )
        return notes

    def check(self) -> None:
        """Raise UsageError with the fix if the folder cannot be used as it is."""
        top = self.top
        if not self.images:
            raise UsageError(f"folder: {top} has no subfolders; put the images of each class into one")
        if self.unread:
            shown = shown_names(file.relative_to(top).as_posix() for file in self.unread)
            raise UsageError(
                f"folder: {_count(self.unread, 'photo is', 'photos are')} in the format HEIC ({shown}), "
                f"which needs a package: `pip install {HEIC_PACKAGE}`; or convert them to JPEG"
            )
        if self.empty:
            what = f"class folder {top / self.empty[0]} has no images"
            if len(self.empty) > 1:
                what = f"{len(self.empty)} class folders of {top} have no images ({shown_names(self.empty)})"
            raise UsageError(f"folder: {what}; remove {_them(self.empty)} or add images")


def scan_folder(top: Path) -> FolderScan:
    """Return the files of a folder by class, in the same order on every system.

    A class folder may itself be a link. Links to folders further down are not followed: they may lead in
    circles, or to the images of another class.
    """
    images: dict[str, list[Path]] = {}
    unread: list[Path] = []
    links: list[Path] = []
    found_others = 0
    readable = SUFFIXES | HEIC_SUFFIXES if find_spec("pillow_heif") else SUFFIXES
    entries = [entry for entry in sorted(top.iterdir()) if not entry.name.startswith(".")]
    for below in entries:
        if not below.is_dir():
            continue
        images[below.name] = []
        for file in _walk(below, links):
            suffix = file.suffix.lower()
            if file.name.startswith("."):
                found_others += 1
            elif suffix in readable:
                images[below.name].append(file)
            elif suffix in HEIC_SUFFIXES:
                unread.append(file)
            else:
                found_others += 1
    files = [entry for entry in entries if entry.is_file()]
    loose = [file for file in files if file.suffix.lower() in SUFFIXES | HEIC_SUFFIXES]
    hidden = _count_hidden(top)
    others = found_others + hidden + len(files) - len(loose)
    return FolderScan(top, images, tuple(unread), others, tuple(links), tuple(loose))


def image_files(top: Path) -> list[Path]:
    """Return all image files below a folder, sorted; links to folders are not followed."""
    readable = SUFFIXES | HEIC_SUFFIXES if find_spec("pillow_heif") else SUFFIXES
    return [file for file in _walk(top, []) if file.suffix.lower() in readable and file.name[0] != "."]


def _walk(below: Path, links: list[Path]) -> list[Path]:
    """Return the files below a folder, sorted, and add the links to folders to ``links``."""
    found: list[Path] = []
    for at, folders, files in os.walk(below):
        links += [Path(at, name) for name in sorted(folders) if Path(at, name).is_symlink()]
        found += [Path(at, name) for name in files if Path(at, name).is_file()]
    return sorted(found)


def _count_hidden(top: Path) -> int:
    """Return the number of files that are hidden, or in hidden folders, directly in ``top``."""
    count = 0
    for entry in top.iterdir():
        if entry.name.startswith("."):
            count += 1 if entry.is_file() else sum(len(files) for _, _, files in os.walk(entry))
    return count


def is_split_already(top: Path) -> bool:
    """Return True if a folder holds ``train`` and ``test`` folders with one folder per class in each."""
    parts = {PARTS.get(entry.name.lower()): entry for entry in top.iterdir() if entry.is_dir()}
    return all(part in parts and class_folders(parts[part]) for part in ("train", "test"))


def split_names(top: Path) -> list[str]:
    """Return the names of the subfolders if all are parts, such as ``train`` and ``val``, with classes."""
    folders = [f for f in sorted(top.iterdir()) if f.is_dir() and f.name[0] != "."]
    split = all(f.name.lower() in PARTS and class_folders(f) for f in folders)
    return [f.name for f in folders] if split else []


def class_folders(top: Path) -> list[Path]:
    """Return the subfolders of ``top`` that hold images directly."""
    folders = [f for f in sorted(top.iterdir()) if f.is_dir() and not f.name.startswith(".")]
    return [folder for folder in folders if _holds_image(folder)]


def find_classes(top: Path) -> Path | None:
    """Return the only folder below ``top``, or below that, if its subfolders are the classes; else None.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as nest:
        ...     for name in ("cat", "dog"):
        ...         Path(nest, "photos", name).mkdir(parents=True)
        ...         Path(nest, "photos", name, "1.jpg").touch()
        ...     find_classes(Path(nest)).name
        'photos'
    """
    at = top
    for _ in range(_DEPTH):
        folders = [f for f in at.iterdir() if f.is_dir() and not f.is_symlink() and f.name[0] != "."]
        if len(folders) != 1:  # several folders are classes, whose images may be further down
            break
        at = folders[0]
        if len(class_folders(at)) > 1:
            return at
    return None


def _holds_image(folder: Path) -> bool:
    return any(f.suffix.lower() in SUFFIXES | HEIC_SUFFIXES for f in folder.iterdir())


def shown_names(names: Iterable[str]) -> str:
    """Return the first few of many names as text.

    Example:
        >>> shown_names(["a", "b", "c", "d", "e", "f", "g"])
        'a, b, c, d, e and 2 more'
    """
    found = [printable(name) for name in names]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _count(items: Sequence[object], one: str, many: str) -> str:
    return f"{len(items)} {one if len(items) == 1 else many}"


def _them(items: Sequence[object]) -> str:
    return "it" if len(items) == 1 else "them"
