"""Sources of images for an index: folders, CSV tables, datasets."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.data import Dataset, FileImages, ImageError, decode_image
from levelfield.data.datasets.folder import SUFFIXES
from levelfield.retrieval.embedders import ImageInput

MAX_FILE_BYTES = 1 << 29
LoadedImage = tuple[bytes, Callable[[], ImageInput]]  # content hash, function that returns the image


@dataclass(frozen=True)
class SourceImage:
    """Image to be indexed.

    Attributes:
        name: Path, or ``dataset:row``.
        label: Class; empty if it has none.
        load: Function that returns the content hash and a function for the image. Raises ImageError if the
            image cannot be read.
    """

    name: str
    label: str
    load: Callable[[], LoadedImage]


def images_from_folder(folder: str | Path) -> Iterator[SourceImage]:
    """Yield all image files below ``folder``, by path.

    The label is the name of the first subfolder. Images in ``folder`` itself have no label. Hidden files and
    folders are skipped. Links to folders are followed; a folder that was already read is not read again, so
    links in a circle end.
    """
    top = absolute_path(folder)
    if not top.is_dir():
        raise UsageError(f"{folder} is not a folder; give a folder with images, a CSV file or a dataset")
    visited = {_identity(top)}
    for where, folders, names in os.walk(top, followlinks=True):
        folders[:] = _new_folders(Path(where), folders, visited)
        below = Path(where).relative_to(top).parts
        for name in sorted(names):
            file = Path(where, name)
            if file.suffix.lower() in SUFFIXES and not name.startswith("."):
                yield SourceImage(str(file), below[0] if below else "", partial(read_image_file, file))


def _new_folders(where: Path, names: list[str], visited: set[tuple[int, int]]) -> list[str]:
    """Return the folders to read, and note them; real folders come before links to the same folder."""
    kept = []
    for name in sorted(
        (name for name in names if not name.startswith(".")), key=lambda n: _link_last(where, n)
    ):
        found = _identity(where / name)
        if found not in visited:
            visited.add(found)
            kept.append(name)
    return sorted(kept)


def _link_last(where: Path, name: str) -> tuple[bool, str]:
    return (where / name).is_symlink(), name


def _identity(folder: Path) -> tuple[int, int]:
    """Return the device and the number of a folder, which are the same under all its names."""
    found = folder.stat()
    return found.st_dev, found.st_ino


def images_from_csv(table: str | Path) -> Iterator[SourceImage]:
    """Yield the image files listed in a CSV table with the column ``path`` and, optionally, ``label``.

    Paths are absolute, or relative to the table. A missing file is reported when it is read.
    """
    file = Path(table)
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream, restval="")
            if "path" not in (reader.fieldnames or ()):
                raise UsageError(
                    f'{file} has no column "path"{did_you_mean("path", reader.fieldnames or ())}'
                )
            for fields in reader:
                path = absolute_path(file.parent / fields["path"].strip())
                yield SourceImage(str(path), fields.get("label", "").strip(), partial(read_image_file, path))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}; check the path") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} is not a UTF-8 CSV file ({error}); save it as one") from error


def images_from_dataset(dataset: Dataset, *, pixels: Dataset | None = None) -> Iterator[SourceImage]:
    """Yield the images of a dataset, labeled with their class names.

    Image files are identified by path and bytes, other images by ``dataset:row`` and pixels.

    Args:
        dataset: Dataset as loaded.
        pixels: The same dataset with images from a prepared store; see
            :func:`levelfield.data.store.use_store`. Names and content hashes stay those of the files.
    """
    files = dataset.images if isinstance(dataset.images, FileImages) else None
    quick = pixels.images if pixels is not None and len(pixels) == len(dataset) else None
    for row, label in enumerate(dataset.labels.tolist()):
        name = dataset.class_names[label]
        if files is not None and (files.boxes is None or np.isnan(files.boxes[row]).any()):
            path = absolute_path(files.root / files.paths[row])
            read = None if quick is None else partial(quick.read, row)
            yield SourceImage(str(path), name, partial(read_image_file, path, read))
        else:
            yield SourceImage(f"{dataset.name}:{row}", name, partial(_load_pixels, dataset, row))


def absolute_path(path: str | Path) -> Path:
    """Return the normalized absolute path, under which an index stores a file.

    Example:
        >>> absolute_path("/photos/../photos/./cat.jpg").as_posix()
        '/photos/cat.jpg'
    """
    return Path(os.path.normpath(Path(path).absolute()))


def read_image_file(path: Path, pixels: Callable[[], ImageInput] | None = None) -> LoadedImage:
    """Return the hash of a file's bytes and a function that decodes them, or ``pixels`` if given."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ImageError(f"{path}: not a regular file; leave it out")
        if size == 0:
            raise ImageError(f"{path}: the file is empty (0 bytes); download it again")
        if size > MAX_FILE_BYTES:
            raise ImageError(
                f"{path}: {size:,} bytes exceed the limit of {MAX_FILE_BYTES:,}; remove or shrink it"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(
            f"{path}: {error.strerror or error}; check that it exists and is readable"
        ) from error
    return hashlib.sha256(data).digest(), pixels or partial(decode_image, io.BytesIO(data), name=str(path))


def _load_pixels(dataset: Dataset, row: int) -> LoadedImage:
    pixels: Any = dataset.images.read(row)
    digest = hashlib.sha256(repr(tuple(pixels.shape)).encode() + pixels.contiguous().numpy().tobytes())
    return digest.digest(), lambda: pixels
