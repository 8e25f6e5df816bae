"""Where data that can be made again is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``LEVELFIELD_CACHE``, else the user's cache folder by the XDG rules; it may not exist yet."""
    if given := os.environ.get("LEVELFIELD_CACHE"):
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "levelfield"
