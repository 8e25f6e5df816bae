"""Embedding files: npy, npz, safetensors, CSV or parquet."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.core.files import write_text
from levelfield.metrics._scores import Scores

LABEL_COLUMNS = ("label", "labels", "class", "target")
ID_COLUMNS = ("path", "paths", "file", "image", "id", "ids")
# errors of NumPy for damaged arrays, and for headers that claim more than memory holds
UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    MemoryError,
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
)
MOST_TEXT = 4 * 10_000  # bytes of a label or a name, 4 per character
MOST_UNPACKED, MOST_RATIO = 1 << 30, 100  # bytes; embeddings never shrink this much
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class EmbeddingFile:
    """Embeddings (N, D), with labels (N,) and names of the items (N,) if there are any.

    Attributes:
        embeddings: Embeddings, one row per item.
        labels: Class of each item, from the file or one next to it.
        ids: Name of each item, such as the path of its image, from the same file.
    """

    embeddings: Array
    labels: Array | None
    ids: Array | None = None


def read_embeddings(path: str | Path, *, labels: str | Path | None = None) -> EmbeddingFile:
    """Read embeddings, and labels from the same file, from ``labels``, or from ``NAME.labels.*`` next to it.

    An ``.npy`` file is mapped, not read. ``npz`` and ``safetensors`` hold "embeddings" and "labels", and
    may hold "paths" or "ids". In CSV (with a header) and parquet, the column "label" holds the labels, "path"
    or "id" the name of the item, and all other columns the numbers. Parquet may have one column "embedding"
    of lists instead.

    Example:
        >>> read_embeddings("nowhere.npz")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: nowhere.npz does not exist; check the path
    """
    file = _existing(path)
    readers: dict[str, Callable[[Path], EmbeddingFile]] = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".safetensors": _read_safetensors,
        ".csv": _read_csv,
        ".parquet": _read_parquet,
    }
    if file.suffix not in readers:
        raise UsageError(f"{file} has an unknown extension; use one of {', '.join(readers)}")
    found = readers[file.suffix](file)
    if labels is not None:
        return replace(found, labels=read_labels(labels))
    if found.labels is None:
        label_files = sorted(file.parent.glob(f"{file.stem}.labels.*"))
        return replace(found, labels=read_labels(label_files[0]) if label_files else None)
    return found


def read_labels(path: str | Path) -> Array:
    """Read labels (N,) from ``.npy``, the column "label" of a ``.csv``, or the lines of a text file."""
    file = _existing(path)
    if file.suffix == ".npy":
        return np.asarray(_check_texts(_load(file), file))
    if file.suffix == ".csv":
        header, rows = _csv_rows(file)
        column = _label_column(header)
        if column is None:
            raise UsageError(f'{file} has no column "label"; rename the column of labels')
        return np.array([row[column] for row in rows])
    try:
        return np.array(file.read_text(encoding="utf-8").splitlines())
    except ValueError as error:
        raise UsageError(f"{file} cannot be read: {error}; save it in UTF-8") from error


def _existing(path: str | Path) -> Path:
    file = Path(path)
    if file.is_dir():
        raise UsageError(f"{file} is a directory; give a file of embeddings or labels")
    if not file.is_file():
        raise UsageError(f"{file} does not exist; check the path")
    return file


def _load(file: Path, **options: Any) -> Any:
    try:
        return np.load(file, allow_pickle=False, **options)
    except UNREADABLE as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> UsageError:
    return UsageError(f"{file} cannot be read: {error}; save plain arrays of numbers or strings")


def _read_npy(file: Path) -> EmbeddingFile:
    return EmbeddingFile(_load(file, mmap_mode="r"), None)


def _read_npz(file: Path) -> EmbeddingFile:
    _check_unpacked_size(file)
    arrays = _load(file)
    if not hasattr(arrays, "files"):
        raise UsageError(f"{file} holds one array without a name; rename it to .npy")
    with arrays:
        try:
            return _from_names(file, arrays, list(arrays.files))
        except UsageError:
            raise
        except UNREADABLE as error:
            raise _unreadable(file, error) from error


def _check_unpacked_size(file: Path) -> None:
    """Refuse a small file that unpacks to a huge one: reading it would fill the memory."""
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as packed:
            size = sum(member.file_size for member in packed.infolist())
    except UNREADABLE as error:
        raise _unreadable(file, error) from error
    if size > max(MOST_UNPACKED, MOST_RATIO * file.stat().st_size):
        raise UsageError(f"{file} unpacks to {size:,} bytes; save it with numpy.savez, without compression")


def _read_safetensors(file: Path) -> EmbeddingFile:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as tensors:
            names = list(tensors.keys())
            return _from_names(file, {name: _as_numpy(tensors.get_tensor(name)) for name in names}, names)
    except SafetensorError as error:
        raise UsageError(f"{file} is not a safetensors file: {error}; export it again") from error


def _as_numpy(tensor: Any) -> Array:
    """Return a tensor as an array; NumPy has no bfloat16 and no 8-bit floats."""
    import torch

    known = tensor.dtype == torch.float16 or not tensor.is_floating_point() or tensor.dtype.itemsize > 2
    found: Array = (tensor if known else tensor.float()).numpy()
    return found


def _from_names(file: Path, arrays: Any, names: list[str]) -> EmbeddingFile:
    if "embeddings" not in names:
        raise UsageError(f'{file} holds {", ".join(names) or "nothing"}; save the embeddings as "embeddings"')
    ids = next((arrays[name] for name in ID_COLUMNS if name in names), None)
    embeddings = arrays["embeddings"]
    if embeddings.dtype.kind == "f" and embeddings.dtype.itemsize > 8:  # PyTorch has no longer floats
        embeddings = embeddings.astype(np.float64)
    labels = arrays["labels"] if "labels" in names else None
    return EmbeddingFile(embeddings, _check_texts(labels, file), _check_texts(ids, file))


def _check_texts(texts: Any, file: Path) -> Any:
    """Refuse texts that are far longer than names: NumPy gives each one the room of the longest."""
    if texts is not None and texts.dtype.kind in "US" and texts.dtype.itemsize > MOST_TEXT:
        raise UsageError(f"{file} has labels or names of type {texts.dtype}; shorten them")
    return texts


def _csv_rows(file: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = [row for row in csv.reader(lines) if row]
    except (ValueError, csv.Error) as error:  # ValueError: not UTF-8
        raise UsageError(f"{file} cannot be read: {error}; save it as CSV in UTF-8") from error
    if len(rows) < 2:
        raise UsageError(f"{file} holds no rows; it needs a header and one row per sample")
    wrong = next((n for n, row in enumerate(rows, start=1) if len(row) != len(rows[0])), None)
    if wrong is not None:
        fields = f"{len(rows[wrong - 1])} fields, the header {len(rows[0])}"
        raise UsageError(f"{file} line {wrong} has {fields}; correct the line")
    return rows[0], rows[1:]


def _label_column(header: list[str]) -> int | None:
    return _column(header, LABEL_COLUMNS)


def _column(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((n for n, name in enumerate(header) if name.strip().lower() in names), None)


def _read_csv(file: Path) -> EmbeddingFile:
    header, rows = _csv_rows(file)
    at, named = _label_column(header), _column(header, ID_COLUMNS)
    labels, ids = (None if n is None else np.array([row[n] for row in rows]) for n in (at, named))
    numbers = [[value for n, value in enumerate(row) if n not in (at, named)] for row in rows]
    try:
        return EmbeddingFile(np.array(numbers, dtype=np.float64), labels, ids)
    except ValueError as error:
        raise UsageError(f"{file}: {error}; all columns but the label must be numbers") from error


def _read_parquet(file: Path) -> EmbeddingFile:
    from levelfield.metrics._parquet import as_list, numbers_of_lists, read_table

    table = read_table(file)
    header = list(table.column_names)
    at, named = _label_column(header), _column(header, ID_COLUMNS)
    labels, ids = (None if n is None else np.asarray(as_list(table.column(n), file)) for n in (at, named))
    names = [name for n, name in enumerate(header) if n not in (at, named)]
    if not names:
        raise UsageError(f"{file} has no columns of numbers; add the embeddings")
    try:
        if names in (["embedding"], ["embeddings"]):
            rows = numbers_of_lists(table.column(names[0]))
        else:
            rows = np.column_stack([table.column(name).to_numpy() for name in names])
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file}: {error}; all rows must have the same number of numbers") from error
    return EmbeddingFile(rows, labels, ids)


def read_labeled_embeddings(path: str | Path, *, labels: str | Path | None, option: str) -> EmbeddingFile:
    """Read embeddings with labels; raise UsageError that suggests ``option`` if there are none."""
    found = read_embeddings(path, labels=labels)
    if found.labels is None:
        raise UsageError(f"{path} holds no labels and has no label file next to it; give one with {option}")
    return found


def write_per_query(scores: Scores, path: Path) -> None:
    """Write one row per query and one column per retrieval metric; cells of skipped queries are empty."""
    columns = list(scores.per_query.values())
    lines = [",".join(["query", *scores.per_query])]
    for row, values in enumerate(zip(*columns, strict=True)):
        lines.append(
            ",".join([str(row), *("" if np.isnan(value) else repr(float(value)) for value in values)])
        )
    write_text(path, "\n".join(lines) + "\n", remedy="free disk space or choose another file")
