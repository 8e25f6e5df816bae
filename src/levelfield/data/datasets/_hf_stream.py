"""Streamed datasets of the Hugging Face hub: the first rows, cached as files.

A stream can be read only from its beginning, but training reads images in any order. So the requested rows
are written to the cache directory, one file per image, and read from there.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from levelfield.core import files
from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.data._content import Digests, hash_files
from levelfield.data._image_files import only_raster_formats, open_raster, to_rgb
from levelfield.data.datasets._hf_cells import decode_cell, undecoded
from levelfield.records import digest

PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


class StreamedPart:
    """Cached rows of one part, with the subset of the ``datasets.Dataset`` interface that is used here."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        about = files.read_json(directory / "part.json")
        self.column_names: list[str] = about["columns"]
        self.features = {about["label"]: _LabelFeature(about["names"])}
        self._image, self._label, self._labels = about["image"], about["label"], about["labels"]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            return self._labels
        return {self._image: self._read_image(key), self._label: self._labels[key]}

    def _read_image(self, row: int) -> Image.Image:
        with open_raster(self._directory / f"{row:08d}") as image:
            image.load()
            return image

    def digests(self) -> Digests:
        """Return the digest of each cached file."""
        return hash_files(self._directory, [f"{row:08d}" for row in range(len(self))]).digests


class _LabelFeature:
    """Label feature with class names; None if the dataset has no names."""

    def __init__(self, names: list[str] | None) -> None:
        self.names = names


def cache_streams(
    streams: dict[str, Any], image: str, label: str, *, name: str, settings: dict[str, Any], limit: int | None
) -> dict[str, StreamedPart]:
    """Return the first ``limit`` rows of each part, from the cache or from the stream."""
    home = files.cache_directory() / "hf-streams" / digest({"name": name, "limit": limit, **settings})
    found = {}
    for part, stream in streams.items():
        directory = home / part
        if not (directory / "part.json").exists():
            with files.lock(home / f".{part}.lock"):
                if not (directory / "part.json").exists():
                    _write_part(directory, stream, image, label, name=name, limit=limit)
        found[part] = StreamedPart(directory)
    return found


def _write_part(
    directory: Path, stream: Any, image: str, label: str, *, name: str, limit: int | None
) -> None:
    columns = list(stream.column_names or [])
    for column in (image, label):
        if columns and column not in columns:
            raise UsageError(f'hf:{name} has no column "{column}"{did_you_mean(column, columns)}')
    encoded = undecoded(stream, image, label, name=name)
    if directory.exists():
        shutil.rmtree(directory)  # left by a killed process
    files.make_directory(directory)
    labels = []
    with files.wrap_disk_errors(directory, remedy="free some space, or set LEVELFIELD_CACHE to another disk"):
        for row, example in enumerate(_take(encoded, limit, name)):
            (directory / f"{row:08d}").write_bytes(_encode_png(example[image], name, image))
            labels.append(example[label])
    names = getattr((stream.features or {}).get(label), "names", None)
    about = {"columns": columns or [image, label], "image": image, "label": label, "names": names}
    files.write_json(directory / "part.json", about | {"labels": labels})


def _take(stream: Any, limit: int | None, name: str) -> Iterator[dict[str, Any]]:
    try:
        with only_raster_formats():  # a stream that does not know its columns is decoded by the library
            yield from stream if limit is None else stream.take(limit)
    except (UsageError, RunError):
        raise
    except Exception as error:  # the library raises many types of errors
        reason = " ".join(str(error).split())[:200]
        raise RunError(
            f"hf:{name}: the stream was interrupted ({reason}); run the same command again"
        ) from error


def _encode_png(image: object, name: str, column: str) -> bytes:
    image = decode_cell(image)
    if isinstance(image, Tensor):
        image = image.permute(1, 2, 0).numpy()
    if isinstance(image, np.ndarray):
        image = Image.fromarray(image)
    if not isinstance(image, Image.Image):
        raise UsageError(
            f'hf:{name}: column "{column}" has no images; set the option image to another column'
        )
    file = io.BytesIO()
    if image.mode not in PNG_MODES:
        image = to_rgb(image)
    image.save(file, format="PNG")  # lossless
    return file.getvalue()
