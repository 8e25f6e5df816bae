"""Finding the store that serves a dataset."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from levelfield.data._dataset import Dataset
from levelfield.data.store._format import IMAGES, read_index, read_manifest, store_path
from levelfield.data.store._packed import PackedImages
from levelfield.data.transforms import Transform


def attach(
    dataset: Dataset, directory: str | Path | None = None, *, resize: int | None = 256
) -> Dataset | None:
    """The dataset with its images read from its store in ``directory``; None if it is not prepared.

    Images that were skipped as unreadable are missing from the result, which then has a note that says so
    and a fingerprint of its own: it is another dataset. Stores are looked for in the cache folder
    if no ``directory`` is given.
    """
    path = store_path(directory, name=dataset.name, fingerprint=dataset.fingerprint, resize=resize)
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
        row_numbers=None,  # the new fingerprint names just these images
    )


def serve(dataset: Dataset, *transforms: Transform, directory: str | Path | None = None) -> Dataset:
    """The dataset read in the fastest way that gives ``transforms`` the same bits.

    That is the store whose resize all of them begin with (their ``first_resize``), else a store of the
    images in their original size, else the dataset as it is.
    """
    wanted = {getattr(transform, "first_resize", None) for transform in transforms}
    candidates = [*wanted, None] if len(wanted) == 1 else [None]
    for resize in dict.fromkeys(candidates):
        attached = attach(dataset, directory, resize=resize)
        if attached is not None:
            return attached
    return dataset
