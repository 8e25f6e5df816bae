"""Image cells of Hugging Face datasets, decoded by levelfield and not by the library.

The library opens images in all formats of Pillow, among them PostScript, which starts Ghostscript.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.data._content import hash_arrays, hash_file
from levelfield.data._image_files import decode_image, only_raster_formats, read_image
from levelfield.data._pillow_images import to_rgb_tensor


def undecoded(part: Any, column: str) -> Any:
    """Return the part with encoded images in ``column``; unchanged if the column is of another kind."""
    from datasets import Image

    features = getattr(part, "features", None) or {}
    if not isinstance(features.get(column), Image):
        return part
    return part.cast_column(column, Image(mode=features[column].mode, decode=False))


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
