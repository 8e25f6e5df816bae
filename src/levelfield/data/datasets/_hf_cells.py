"""Image cells of Hugging Face datasets, decoded by levelfield and not by the library.

The library opens images in all formats of Pillow, among them PostScript, which starts Ghostscript. It decodes
every column of a row that it is asked for, so only the two columns that are used are kept.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data._content import hash_arrays, hash_file
from levelfield.data._image_files import decode_image, only_raster_formats, read_image
from levelfield.data._pillow_images import to_rgb_tensor


def undecoded(part: Any, image: str, label: str, *, name: str) -> Any:
    """Return two columns of a part, with encoded images; raise if the library would decode anything else.

    Args:
        part: Part of a dataset, or a stream. A stream may not know its columns.
        image: Column of images.
        label: Column of labels.
        name: Name of the dataset, for the message.
    """
    from datasets import Image

    features = getattr(part, "features", None) or {}
    if not features:
        return part
    part = part.select_columns([image, label])
    for column, what in ((image, "an image"), (label, "one class per image")):
        if _decodes(features[column]) and not (what == "an image" and isinstance(features[image], Image)):
            raise UsageError(
                f'hf:{name}: column "{column}" does not hold {what}; set the option '
                f"{'label' if column == label else 'image'} to another one"
            )
    if isinstance(features[image], Image):
        part = part.cast_column(image, Image(mode=features[image].mode, decode=False))
    return part


def _decodes(feature: Any) -> bool:
    """Return True if the library decodes values of this feature, or of a part of it."""
    inner = getattr(feature, "feature", feature)  # of a list
    if isinstance(inner, dict):
        return any(map(_decodes, inner.values()))
    if isinstance(inner, list | tuple):
        return any(map(_decodes, inner))
    return hasattr(inner, "decode_example") or (inner is not feature and _decodes(inner))


def decode_cell(cell: object) -> object:
    """Return an encoded image as pixels; anything else unchanged."""
    if not isinstance(cell, dict) or not {"bytes", "path"} <= cell.keys():
        return cell
    if cell["bytes"] is not None:
        return decode_image(io.BytesIO(cell["bytes"]), name=str(cell["path"] or "the image"))
    if is_local_file(cell):
        return read_image(Path(cell["path"]))
    from datasets import Image

    with only_raster_formats():  # a file inside an archive or on a server: only the library can read it
        return Image().decode_example(cell)


def is_local_file(cell: object) -> bool:
    """Return True if a cell holds the path of a file instead of its content."""
    return (
        isinstance(cell, dict)
        and cell.get("bytes") is None
        and isinstance(cell.get("path"), str)
        and Path(cell["path"]).is_file()
    )


def hash_cell(cell: object) -> bytes:
    """Return the SHA-256 digest of an image: of its file, or of its pixels if it is not encoded."""
    if isinstance(cell, dict) and cell.get("bytes") is not None:
        return hashlib.sha256(cell["bytes"]).digest()
    if isinstance(cell, dict) and is_local_file(cell):
        return hash_file(cell["path"])
    pixels = to_rgb_tensor(
        decode_cell(cell if not isinstance(cell, list) else np.array(cell, dtype=np.uint8))
    )
    return bytes(hash_arrays([pixels.numpy()])[0])
