"""Datasets of the Hugging Face hub, read as a stream: only as many rows as wanted, kept as files.

A stream can be read once, from its beginning; training reads images in any order. So the rows that are wanted
are written to the cache as they come, a file per picture, and read from there.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from levelfield import files
from levelfield.data._files import to_rgb
from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.records import digest

PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


class StreamedPart:
    """The rows of one part, with what ``datasets`` offers of a part and we use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        about = files.read_json(folder / "part.json")
        self.column_names: list[str] = about["columns"]
        self.features = {about["label"]: _Names(about["names"])}
        self._image, self._label, self._labels = about["image"], about["label"], about["labels"]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return self._labels
        return {self._image: self._picture(key), self._label: self._labels[key]}

    def _picture(self, row: int) -> Image.Image:
        with Image.open(self._folder / f"{row:08d}") as picture:
            picture.load()
            return picture


class _Names:
    """The names of classes, where the dataset has some."""

    def __init__(self, names: list[str] | None) -> None:
        self.names = names


def keep_stream(
    streams: dict[str, Any], image: str, label: str, *, name: str, settings: dict[str, Any], limit: int | None
) -> dict[str, StreamedPart]:
    """The parts of a dataset, each with its first ``limit`` rows; those of an earlier call are read again."""
    home = files.cache_folder() / "hf-streams" / digest({"name": name, "limit": limit, **settings})
    found = {}
    for part, stream in streams.items():
        folder = home / part
        if not (folder / "part.json").exists():
            with files.lock(home / f".{part}.lock"):
                if not (folder / "part.json").exists():
                    _write(folder, stream, image, label, name=name, limit=limit)
        found[part] = StreamedPart(folder)
    return found


def _write(folder: Path, stream: Any, image: str, label: str, *, name: str, limit: int | None) -> None:
    columns = list(stream.column_names or [])
    for column in (image, label):
        if columns and column not in columns:
            raise UsageError(f'hf:{name} has no column "{column}"{did_you_mean(column, columns)}')
    if folder.exists():
        shutil.rmtree(folder)  # left by a process that was killed
    files.make_folder(folder)
    labels = []
    with files.disk_errors(folder, remedy="make room, or set LEVELFIELD_CACHE to another disk"):
        for row, example in enumerate(_taken(stream, limit, name)):
            (folder / f"{row:08d}").write_bytes(_encoded(example[image], name, image))
            labels.append(example[label])
    names = getattr((stream.features or {}).get(label), "names", None)
    about = {"columns": columns or [image, label], "image": image, "label": label, "names": names}
    files.write_json(folder / "part.json", about | {"labels": labels})


def _taken(stream: Any, limit: int | None, name: str) -> Iterator[dict[str, Any]]:
    try:
        yield from stream if limit is None else stream.take(limit)
    except (UsageError, RunError):
        raise
    except Exception as error:  # the library raises a dozen kinds, of its own and of the network's
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"hf:{name}: the stream broke off ({reason}); give the same command again") from error


def _encoded(picture: object, name: str, column: str) -> bytes:
    if isinstance(picture, np.ndarray):
        picture = Image.fromarray(picture)
    if not isinstance(picture, Image.Image):
        raise UsageError(f'hf:{name}: column "{column}" holds no images; name the one that does')
    file = io.BytesIO()
    if picture.mode not in PNG_MODES:
        picture = to_rgb(picture)
    picture.save(file, format="PNG")  # the same pixels, whatever they came as
    return file.getvalue()
