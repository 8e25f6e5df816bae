"""Date when a photo was taken, from the EXIF data of its file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from levelfield.data._image_files import open_raster

EXIF_BLOCK, TAKEN, CHANGED = 0x8769, 0x9003, 0x0132  # tags of EXIF 2.3


def capture_date(file: Path) -> str:
    """Return the date as ``YYYY-MM-DD HH:MM:SS``; empty if the file has none or cannot be read.

    Example:
        >>> capture_date(Path("nowhere.jpg"))
        ''
    """
    try:
        with open_raster(file) as image:
            tags = image.getexif()
            found: Any = tags.get_ifd(EXIF_BLOCK).get(TAKEN) or tags.get(CHANGED)
        return datetime.strptime(str(found).strip(" \0"), "%Y:%m:%d %H:%M:%S").isoformat(sep=" ")
    except Exception:  # Pillow raises many kinds on damaged files; a date is optional
        return ""
