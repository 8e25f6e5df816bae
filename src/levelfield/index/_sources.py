"""Where pictures to be indexed come from: folders, tables, datasets."""

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

from levelfield.data import Dataset, FileImages, ImageError, decode_image
from levelfield.data.folder import SUFFIXES
from levelfield.embedders import Picture
from levelfield.errors import UsageError, did_you_mean

MAX_FILE_BYTES = 1 << 29
Loaded = tuple[bytes, Callable[[], Picture]]


@dataclass(frozen=True)
class Entry:
    """A picture that may be indexed.

    Attributes:
        name: Its path, or ``dataset:row``.
        label: Its class; empty if it has none.
        load: Gives the hash of its content and a way to its pixels; ImageError if it cannot be read.
    """

    name: str
    label: str
    load: Callable[[], Loaded]


def pictures_in_folder(folder: str | Path) -> Iterator[Entry]:
    """All image files below ``folder``, by path; the first folder below it is a picture's label.

    What lies in ``folder`` itself has no label. Hidden files and folders are left out, links to folders are
    not followed.
    """
    top = absolute(folder)
    if not top.is_dir():
        raise UsageError(f"{folder} is not a folder; name one with pictures, a CSV file or a dataset")
    for where, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(where).relative_to(top).parts
        for name in sorted(names):
            file = Path(where, name)
            if file.suffix.lower() in SUFFIXES and not name.startswith("."):
                yield Entry(str(file), below[0] if below else "", partial(load_file, file))


def pictures_in_csv(table: str | Path) -> Iterator[Entry]:
    """The files that a CSV table names in its column path; its column label, if any, has their labels.

    Paths are absolute, or relative to the table. A file that is missing is reported when it is read.
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
                path = absolute(file.parent / fields["path"].strip())
                yield Entry(str(path), fields.get("label", "").strip(), partial(load_file, path))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}; check the path") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} is not a UTF-8 CSV file ({error}); save it as one") from error


def pictures_in_dataset(dataset: Dataset, *, pixels: Dataset | None = None) -> Iterator[Entry]:
    """The images of a dataset with the names of their classes.

    Images in files are known by their paths and bytes, all others as ``dataset:row`` by their pixels.

    Args:
        dataset: The dataset as it was loaded.
        pixels: The same dataset with its images read from a store, if it is prepared; see
            :func:`levelfield.data.store.serve`. Names and contents stay those of the files.
    """
    files = dataset.images if isinstance(dataset.images, FileImages) else None
    quick = pixels.images if pixels is not None and len(pixels) == len(dataset) else None
    for row, label in enumerate(dataset.labels.tolist()):
        name = dataset.class_names[label]
        if files is not None:
            path = absolute(files.root / files.paths[row])
            read = None if quick is None else partial(quick.read, row)
            yield Entry(str(path), name, partial(load_file, path, read))
        else:
            yield Entry(f"{dataset.name}:{row}", name, partial(_load_pixels, dataset, row))


def absolute(path: str | Path) -> Path:
    """The path under which an index knows a file: one name, however the way to it was written.

    Example:
        >>> absolute("/photos/../photos/./cat.jpg").as_posix()
        '/photos/cat.jpg'
    """
    return Path(os.path.normpath(Path(path).absolute()))


def load_file(path: Path, pixels: Callable[[], Picture] | None = None) -> Loaded:
    """The hash of a file's bytes, and its picture: from these bytes, or from ``pixels``."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise ImageError(f"{path}: not a regular file; leave it out")
        if size == 0:
            raise ImageError(f"{path}: the file is empty (0 bytes); fetch it again")
        if size > MAX_FILE_BYTES:
            raise ImageError(f"{path}: {size:,} bytes are more than a picture may have; remove or shrink it")
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror or error}; check that it is there and readable") from error
    return hashlib.sha256(data).digest(), pixels or partial(decode_image, io.BytesIO(data), name=str(path))


def _load_pixels(dataset: Dataset, row: int) -> Loaded:
    pixels: Any = dataset.images.read(row)
    digest = hashlib.sha256(repr(tuple(pixels.shape)).encode() + pixels.contiguous().numpy().tobytes())
    return digest.digest(), lambda: pixels
