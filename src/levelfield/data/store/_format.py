"""File format of a store: a directory of three files.

* ``images.bin``: pixels, one image after the other, each uint8 H x W x C.
* ``index.bin``: one :data:`RECORD` per image, in the order of writing.
* ``store.json``: the manifest. It is written last.

The name of an unfinished store ends in ``.partial``. The final rename is atomic, so that readers see a
complete store or none.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import RunError
from levelfield.core.files import atomic_write, cache_directory
from levelfield.data._dataset import Dataset

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
class StoreManifest:
    """Contents of a store.

    Attributes:
        dataset: Name of the dataset.
        fingerprint: Fingerprint of the dataset.
        resize: Shorter side of the images, in pixels; None for original sizes.
        rows: Number of images of the dataset.
        size: Size of ``images.bin``, in bytes.
        index_sha256: SHA-256 of ``index.bin``, which holds a checksum per image.
        unreadable: Rows that were left out because they could not be read, each with the reason.
        version: Version of the file format.
    """

    dataset: str
    fingerprint: str
    resize: int | None
    rows: int
    size: int
    index_sha256: str
    unreadable: tuple[tuple[int, str], ...] = ()
    version: int = VERSION


def content_key(dataset: Dataset) -> str:
    """Return the text that identifies the images of a dataset, for the name of its store.

    The fingerprint of an official dataset does not cover the content of its files, so the content is added.
    """
    return f"{dataset.fingerprint} {dataset.content}" if dataset.official else dataset.fingerprint


def store_path(directory: str | Path | None, *, name: str, fingerprint: str, resize: int | None) -> Path:
    """Return the directory of a store below ``directory``, which defaults to the cache directory.

    Example:
        >>> store_path("stores", name="hf:me/birds", fingerprint="f00", resize=256).as_posix()
        'stores/hf_me_birds-256-96bc0b951ecb'
    """
    home = cache_directory() / "images" if directory is None else Path(directory)
    key = hashlib.sha256(json.dumps([VERSION, fingerprint, resize]).encode()).hexdigest()[:12]
    readable = re.sub(r"[^\w.-]+", "_", name)
    return home / f"{readable}-{resize or 'original'}-{key}"


def image_bytes(index: Records) -> npt.NDArray[np.int64]:
    """Return the size of each image, in bytes."""
    height, width, channels = (index[key].astype(np.int64) for key in ("height", "width", "channels"))
    return height * width * channels


def read_manifest(path: Path) -> StoreManifest:
    """Return the manifest of the finished store at ``path``."""
    try:
        fields = json.loads((path / MANIFEST).read_bytes())
        fields["unreadable"] = tuple((int(row), str(reason)) for row, reason in fields["unreadable"])
        manifest = StoreManifest(**fields)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged_store(path, f"{MANIFEST} cannot be read ({error})") from error
    if manifest.version != VERSION:
        raise damaged_store(path, f"its format version is {manifest.version}, not {VERSION}")
    return manifest


def read_index(path: Path, manifest: StoreManifest) -> Records:
    """Return the records of the finished store at ``path``, in order of rows; raise if it is damaged."""
    try:
        raw = (path / INDEX).read_bytes()
        size = (path / IMAGES).stat().st_size
    except OSError as error:
        raise damaged_store(path, str(error)) from error
    if hashlib.sha256(raw).hexdigest() != manifest.index_sha256:
        raise damaged_store(path, f"{INDEX} does not match its checksum")
    if size != manifest.size:
        raise damaged_store(path, f"{IMAGES} has {size} bytes instead of {manifest.size}")
    index = np.frombuffer(raw, dtype=RECORD)
    return index[np.argsort(index["row"], kind="stable")]


def write_manifest(path: Path, manifest: StoreManifest) -> None:
    """Write the manifest of the store at ``path``."""
    with atomic_write(path / MANIFEST) as temporary:
        temporary.write_text(json.dumps(asdict(manifest), indent=1), encoding="utf-8")


def damaged_store(path: Path, problem: str) -> RunError:
    """Return the error for a damaged store at ``path``."""
    return RunError(f"the image store {path} is damaged: {problem}; delete it and prepare it again")
