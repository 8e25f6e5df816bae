"""What a store is on disk: a directory of three files.

* ``images.bin``: the pixels, one image after the other, each uint8 H x W x C.
* ``index.bin``: one :data:`RECORD` per image, in the order in which they were written.
* ``store.json``: the manifest. While a store is being prepared it has none, and its directory ends in
  ``.partial``; giving the directory its final name is the last step, so that a reader sees all or nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.errors import RunError
from levelfield.files import cache_folder, replacing

VERSION = 1
IMAGES, INDEX, MANIFEST = "images.bin", "index.bin", "store.json"
RECORD = np.dtype(
    [
        ("row", "<i8"),
        ("offset", "<i8"),
        ("height", "<i4"),
        ("width", "<i4"),
        ("channels", "<i4"),
        ("crc", "<u4"),
    ]
)
Records = npt.NDArray[np.void]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What the store holds.

    Attributes:
        dataset: The dataset's name.
        fingerprint: The dataset's fingerprint.
        resize: What the shorter sides were brought to; None if the images are of their original size.
        rows: How many images the dataset has.
        size: Bytes of ``images.bin``.
        index_sha256: The checksum of ``index.bin``, which in turn holds a checksum per image.
        unreadable: The rows that could not be read and were left out, each with the reason.
    """

    dataset: str
    fingerprint: str
    resize: int | None
    rows: int
    size: int
    index_sha256: str
    unreadable: tuple[tuple[int, str], ...] = ()
    version: int = VERSION


def store_path(directory: str | Path | None, *, name: str, fingerprint: str, resize: int | None) -> Path:
    """Where the store of a dataset lies below ``directory``; None stands for levelfield's cache folder.

    Example:
        >>> store_path("stores", name="hf:me/birds", fingerprint="f00", resize=256).as_posix()
        'stores/hf_me_birds-256-96bc0b951ecb'
    """
    home = cache_folder() / "images" if directory is None else Path(directory)
    key = hashlib.sha256(json.dumps([VERSION, fingerprint, resize]).encode()).hexdigest()[:12]
    readable = re.sub(r"[^\w.-]+", "_", name)
    return home / f"{readable}-{resize or 'original'}-{key}"


def sizes(index: Records) -> npt.NDArray[np.int64]:
    """Bytes of every image."""
    height, width, channels = (index[key].astype(np.int64) for key in ("height", "width", "channels"))
    return height * width * channels


def read_manifest(path: Path) -> Manifest:
    """The manifest of the finished store at ``path``."""
    try:
        fields = json.loads((path / MANIFEST).read_bytes())
        fields["unreadable"] = tuple((int(row), str(reason)) for row, reason in fields["unreadable"])
        manifest = Manifest(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged_store(path, f"{MANIFEST} cannot be read ({error})") from error
    if manifest.version != VERSION:
        raise damaged_store(path, f"it has format {manifest.version}, not {VERSION}")
    return manifest


def read_index(path: Path, manifest: Manifest) -> Records:
    """The records of the finished store at ``path`` in order of rows; refuses a damaged store."""
    try:
        raw = (path / INDEX).read_bytes()
        size = (path / IMAGES).stat().st_size
    except OSError as error:
        raise damaged_store(path, str(error)) from error
    if hashlib.sha256(raw).hexdigest() != manifest.index_sha256:
        raise damaged_store(path, f"{INDEX} does not have its checksum")
    if size != manifest.size:
        raise damaged_store(path, f"{IMAGES} has {size} bytes instead of {manifest.size}")
    index = np.frombuffer(raw, dtype=RECORD)
    return index[np.argsort(index["row"], kind="stable")]


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write the manifest into ``path``."""
    with replacing(path / MANIFEST) as temporary:
        temporary.write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")


def damaged_store(path: Path, what: str) -> RunError:
    """The error that names a store that cannot be used, and why."""
    return RunError(f"the image store {path} is damaged: {what}; delete it and prepare it again")
