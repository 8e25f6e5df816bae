"""Find and open the store of a dataset."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from levelfield.data._dataset import Dataset
from levelfield.data.store._format import IMAGES, content_key, read_index, read_manifest, store_path
from levelfield.data.store._packed import PackedImages
from levelfield.data.transforms import Transform


def load_from_store(
    dataset: Dataset, directory: str | Path | None = None, *, resize: int | None = 256
) -> Dataset | None:
    """Return the dataset with its images read from a store; None if there is no such store.

    Images that were skipped as unreadable are left out. The result is then a different dataset: it has its
    own fingerprint, and a note with the number of skipped images.

    Args:
        dataset: Dataset whose store is wanted.
        directory: Parent directory of all stores. Defaults to ``images`` in the cache directory.
        resize: Resize of the store; None for a store of original sizes.
    """
    path = store_path(directory, name=dataset.name, fingerprint=content_key(dataset), resize=resize)
    if not path.is_dir():
        return None
    manifest = read_manifest(path)
    index = read_index(path, manifest)
    packed = PackedImages(path / IMAGES, index)
    if not manifest.unreadable:
        return dataclasses.replace(dataset, images=packed)
    left_out = [row for row, _ in manifest.unreadable]
    fingerprint = hashlib.sha256(json.dumps([dataset.fingerprint, left_out]).encode()).hexdigest()
    notes = (*dataset.notes, f"{len(left_out)} unreadable images were skipped")
    return dataclasses.replace(
        dataset.select(index["row"].astype("int64")),
        images=packed,
        fingerprint=fingerprint,
        notes=notes,
        row_numbers=None,  # the new fingerprint covers exactly these images
    )


def use_store(dataset: Dataset, *transforms: Transform, directory: str | Path | None = None) -> Dataset:
    """Return the dataset with its images read from the best matching store, or unchanged if there is none.

    The transforms get the same bits either way. The best match is the store whose resize equals the
    ``first_resize`` of all transforms. The second choice is a store of original sizes.
    """
    wanted = {getattr(transform, "first_resize", None) for transform in transforms}
    candidates = [*wanted, None] if len(wanted) == 1 else [None]
    for resize in dict.fromkeys(candidates):
        stored = load_from_store(dataset, directory, resize=resize)
        if stored is not None:
            return stored
    return dataset
