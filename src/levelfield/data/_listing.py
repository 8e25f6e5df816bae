"""From a list of files to a dataset: find the folder, check that the files are there, name what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.data._dataset import Dataset
from levelfield.data._files import FileImages
from levelfield.errors import UsageError

Flags = npt.NDArray[np.bool_]


def find_root(name: str, root: str | Path, *, folder: str, marker: str) -> Path:
    """The folder that holds ``marker``: ``root`` itself, or ``folder`` below it."""
    given = Path(root)
    for candidate in (given, given / folder):
        if (candidate / marker).exists():
            return candidate
    raise UsageError(
        f"{name}: found neither {given / marker} nor {given / folder / marker}; "
        f"run `levelfield data fetch {name} --root {given}`, or set root to where the dataset lies"
    )


def read_table(file: Path, columns: int, *, skip: int = 0, last: bool = False) -> list[list[str]]:
    """The lines of a text file as ``columns`` fields apart by blanks, the first ``skip`` left out.

    Surplus blanks belong to the last field if ``last`` is set: class names may hold some.
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
        raise UsageError(f"{file} has no entries; fetch the dataset again")
    return table


def whole_number(text: str, file: Path) -> int:
    """``text`` as a number, or an error that names the file."""
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f'{file}: "{text}" is not a whole number; fetch the dataset again') from error


def class_ids(keys: Sequence[int] | Sequence[str], order: Sequence[int] | Sequence[str]) -> list[int]:
    """The position of every key in ``order``, which holds each of them once.

    Example:
        >>> class_ids(["b", "a", "b"], ["a", "b"])
        [1, 0, 1]
    """
    position = {key: number for number, key in enumerate(order)}
    return [position[key] for key in keys]


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
) -> Dataset:
    """A dataset of image files; UsageError if some are missing.

    The fingerprint covers names, sizes, labels and the official split, not the bytes of every file: reading
    gigabytes at every start would take too long, and another edition of a set differs in its sizes.

    Args:
        name: The name that the dataset is registered under.
        root: The folder that ``paths`` are relative to.
        paths: N paths of image files, relative or absolute.
        labels: N class ids in 0..C-1, in class order.
        class_names: One name per class id.
        is_test: See :class:`levelfield.data.Dataset`, as the arguments after it.
        is_validation: See there.
        roles: See there.
        notes: See there.

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
    missing = []
    for path in paths:
        file = root / path
        try:
            size = file.stat().st_size
        except OSError:
            missing.append(path)
            continue
        # An absolute path says where a file lies; only its name says what it is.
        digest.update(f"{file.name if Path(path).is_absolute() else path}\0{size}\n".encode())
    if missing:
        raise UsageError(
            f"{name}: {len(missing)} of {len(paths)} files are missing below {root}, such as {missing[0]}; "
            "fetch or unpack the dataset again"
        )
    for part in (ids, is_test, is_validation, roles):
        digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
    return Dataset(
        name=name,
        images=FileImages(root, paths),
        labels=ids,
        class_names=tuple(class_names),
        fingerprint=digest.hexdigest(),
        is_test=is_test,
        is_validation=is_validation,
        roles=roles,
        notes=tuple(notes),
    )
