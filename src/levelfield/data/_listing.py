"""Datasets from file lists: find the root, read tables, check files, compute the fingerprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.core.seeds import seed_for
from levelfield.data._content import hash_files
from levelfield.data._dataset import Dataset, Rows
from levelfield.data._image_files import FileImages

Flags = npt.NDArray[np.bool_]


def find_root(name: str, root: str | Path, *, folder: str, marker: str) -> Path:
    """Return the folder that contains ``marker``: ``root`` itself, or its subfolder ``folder``."""
    given = Path(root)
    for candidate in (given, given / folder):
        if (candidate / marker).exists():
            return candidate
    raise UsageError(
        f"{name}: found neither {given / marker} nor {given / folder / marker}; "
        f"run `levelfield data fetch {name} --root {given}`, or set root to the folder of the dataset"
    )


def read_table(file: Path, columns: int, *, skip: int = 0, last: bool = False) -> list[list[str]]:
    """Return the lines of a text file, each split at spaces into ``columns`` fields.

    Args:
        file: UTF-8 text file.
        columns: Number of fields per line.
        skip: Number of header lines to skip.
        last: Whether the last field may contain spaces, such as a class name.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()[skip:]
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not a UTF-8 text file; fetch the dataset again") from error
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}; fetch the dataset again") from error
    table = []
    for number, line in enumerate(lines, start=skip + 1):
        if not line.strip():
            continue
        fields = line.split(maxsplit=columns - 1) if last else line.split()
        if len(fields) != columns:
            raise UsageError(
                f"{file}, line {number}: {len(fields)} fields instead of {columns}; fetch it again"
            )
        table.append(fields)
    if not table:
        raise UsageError(f"{file} is empty; fetch the dataset again")
    return table


def parse_integer(text: str, file: Path) -> int:
    """Return ``text`` as an integer; raise UsageError with the name of the file if it is not one."""
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f'{file}: "{text}" is not a whole number; fetch the dataset again') from error


def class_ids(keys: Sequence[int] | Sequence[str], order: Sequence[int] | Sequence[str]) -> list[int]:
    """Return the position of every key in ``order``, which contains each key once.

    Example:
        >>> class_ids(["b", "a", "b"], ["a", "b"])
        [1, 0, 1]
    """
    position = {key: number for number, key in enumerate(order)}
    return [position[key] for key in keys]


def shuffle_classes(names: Iterable[str], seed: int) -> list[str]:
    """Return class names in a random order that depends on the seed and on each name alone.

    A class that is added or removed does not change the order of the others.

    Example:
        >>> shuffle_classes(["ant", "bee", "cat"], 0)
        ['cat', 'ant', 'bee']
    """
    return sorted(names, key=lambda name: (seed_for("class order", seed, name), name))


def from_files(
    name: str,
    root: Path,
    paths: Sequence[str],
    labels: Iterable[int],
    class_names: Sequence[str],
    *,
    is_test: Flags | None = None,
    is_validation: Flags | None = None,
    roles: npt.NDArray[np.int8] | None = None,
    notes: Sequence[str] = (),
    official: bool = False,
    relevant: Rows | None = None,
    ignored: Rows | None = None,
    boxes: npt.NDArray[np.float64] | None = None,
) -> Dataset:
    """Return a dataset of image files; raise UsageError if some are missing.

    The fingerprint covers file names, the content of every file, labels and the official split. Files are
    read once and their digests remembered; see :mod:`levelfield.data._content`.

    Args:
        name: Registered name of the dataset.
        root: Folder that relative paths start from.
        paths: N paths of image files, relative or absolute.
        labels: N class ids in 0..C-1, in class order.
        class_names: One name per class id.
        is_test: See :class:`levelfield.data.Dataset`.
        is_validation: See :class:`levelfield.data.Dataset`.
        roles: See :class:`levelfield.data.Dataset`.
        notes: See :class:`levelfield.data.Dataset`.
        official: True for a published list of files: the fingerprint covers file sizes instead of contents,
            so that it is the same as in earlier records. The contents are in ``digests`` either way.
        relevant: See :class:`levelfield.data.Dataset`.
        ignored: See :class:`levelfield.data.Dataset`.
        boxes: Part of each image to read; see :class:`levelfield.data.FileImages`.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("a.png", "b.png"):
        ...         Image.new("RGB", (4, 2)).save(Path(folder, name))
        ...     dataset = from_files("mine", Path(folder), ["a.png", "b.png"], [0, 1], ["left", "right"])
        ...     dataset.images.read(1).shape
        torch.Size([3, 2, 4])
    """
    ids = np.fromiter(labels, dtype=np.int64, count=len(paths))
    digest = hashlib.sha256()
    contents = hash_files(root, paths)
    if contents.missing:
        raise UsageError(
            f"{name}: {len(contents.missing)} of {len(paths)} files are missing below {root}, such as "
            f"{paths[contents.missing[0]]}; fetch or unpack the dataset again"
        )
    sizes = contents.stamps[:, 0].tolist()
    for row, path in enumerate(paths):
        # Of an absolute path only the file name counts: the location is local.
        shown = Path(path).name if os.path.isabs(path) else path  # noqa: PTH117 - quick for a million paths
        about = sizes[row] if official else contents.digests[row].tobytes().hex()
        digest.update(f"{shown}\0{about}\n".encode(errors="surrogateescape"))
    for part in (ids, is_test, is_validation, roles):
        digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    for mark, pairs in ((b"relevant", relevant), (b"ignored", ignored)):
        if pairs is not None:  # datasets without lists keep the fingerprint of earlier versions
            digest.update(mark + np.ascontiguousarray(pairs).tobytes())
    digests = contents.digests
    if boxes is not None:
        digest.update(b"boxes" + np.ascontiguousarray(boxes).tobytes())
        digests = _digests_of_parts(digests, boxes)
    return Dataset(
        name=name,
        images=FileImages(root, paths, contents, boxes),
        labels=ids,
        class_names=tuple(class_names),
        fingerprint=digest.hexdigest(),
        is_test=is_test,
        is_validation=is_validation,
        roles=roles,
        notes=tuple(notes),
        digests=digests,
        official=official,
        relevant=relevant,
        ignored=ignored,
    )


def _digests_of_parts(
    digests: npt.NDArray[np.uint8], boxes: npt.NDArray[np.float64]
) -> npt.NDArray[np.uint8]:
    """Return digests that differ for two parts of one image."""
    found = digests.copy()
    for row in np.flatnonzero(~np.isnan(boxes).any(axis=1)).tolist():
        part = hashlib.sha256(digests[row].tobytes() + boxes[row].tobytes()).digest()
        found[row] = np.frombuffer(part, dtype=np.uint8)
    return found
