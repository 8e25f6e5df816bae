"""Prepare a store: decode the missing images, append them, and rename the finished store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import lock, make_directory, sync_directory
from levelfield.data._dataset import Dataset
from levelfield.data.store._decode import decode_row, decode_rows
from levelfield.data.store._format import (
    StoreManifest,
    content_key,
    read_index,
    read_manifest,
    store_path,
    write_manifest,
)
from levelfield.data.store._writer import StoreWriter

Progress = Callable[[int, int], None]
Unreadable = tuple[tuple[int, str], ...]


class UnreadableImagesError(RunError):
    """Raised for unreadable images; ``unreadable`` holds each row with the reason."""

    def __init__(self, message: str, unreadable: Unreadable) -> None:
        super().__init__(message)
        self.unreadable = unreadable


def prepare(
    dataset: Dataset,
    directory: str | Path | None = None,
    *,
    resize: int | None = 256,
    unreadable: Literal["refuse", "skip"] = "refuse",
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> Path:
    """Decode and resize every image of ``dataset`` once and write them to ``directory``.

    An interrupted call is resumed by the next one. The finished store has the same bytes either way, and with
    any number of workers. A finished store is left unchanged.

    Args:
        dataset: The dataset to prepare.
        directory: Parent directory of all stores. Defaults to ``images`` in the cache directory. The store
            directory is named after the dataset's fingerprint and the resize.
        resize: Shorter side of each image after the resize, in pixels; None keeps the original size.
        unreadable: "refuse" raises if some images cannot be read; "skip" leaves them out.
        workers: Number of decoding processes.
        progress: Called with the number of finished images and the total.

    Returns:
        Directory of the finished store.

    Raises:
        UnreadableImagesError: Some images cannot be read and ``unreadable`` is "refuse". The others are kept.
        RunError: The disk is full or read-only. Prepared images are kept.
    """
    if resize is not None and resize < 1:
        raise UsageError(f"resize is {resize}; give 1 or more pixels, or none to keep the original size")
    if len(dataset) == 0:
        raise UsageError(f"dataset {dataset.name} has no images to prepare; check its root and options")
    path = store_path(directory, name=dataset.name, fingerprint=content_key(dataset), resize=resize)
    partial = path.with_name(path.name + ".partial")
    try:
        if path.exists() and not _reopen(dataset, path, partial, unreadable):
            progress(len(dataset), len(dataset))
            return path
        make_directory(partial)
        with lock(partial, busy=f"another process is preparing {partial}; wait until it has finished"):
            _write_all(dataset, partial, resize=resize, workers=workers, policy=unreadable, progress=progress)
            partial.rename(path)
            sync_directory(path.parent)
    except OSError as error:
        raise RunError(
            f"cannot write the image store {partial}: {error.strerror or error}; prepared images are kept: "
            "free some space and prepare again, or set LEVELFIELD_CACHE to another directory"
            f"{_free_space(partial)}"
        ) from error
    return path


def _reopen(dataset: Dataset, path: Path, partial: Path, policy: Literal["refuse", "skip"]) -> bool:
    """Reopen a finished store if its skipped images are readable now; return whether it was reopened."""
    manifest = read_manifest(path)
    read_index(path, manifest)
    if policy == "skip" or not manifest.unreadable:
        return False
    still = [
        (row, reason)
        for row, _ in manifest.unreadable
        if isinstance(reason := decode_row(dataset.images, row, manifest.resize), str)
    ]
    if still:
        raise _unreadable_error(dataset, tuple(still))
    path.rename(partial)
    return True


def _write_all(
    dataset: Dataset,
    partial: Path,
    *,
    resize: int | None,
    workers: int,
    policy: Literal["refuse", "skip"],
    progress: Progress,
) -> None:
    writer = StoreWriter(partial)
    try:
        todo = np.setdiff1d(np.arange(len(dataset)), writer.rows)
        done = len(dataset) - len(todo)
        progress(done, len(dataset))
        failed = []
        for row, result in decode_rows(dataset.images, todo, resize=resize, workers=workers):
            if isinstance(result, str):
                failed.append((row, result))
            else:
                writer.add(row, result)
            done += 1
            progress(done, len(dataset))
        writer.commit()
        if failed and (policy == "refuse" or len(failed) == len(dataset)):
            raise _unreadable_error(dataset, tuple(failed))
        manifest = StoreManifest(
            dataset=dataset.name,
            fingerprint=dataset.fingerprint,
            resize=resize,
            rows=len(dataset),
            size=writer.size,
            index_sha256=writer.index_sha256(),
            unreadable=tuple(failed),
        )
    finally:
        writer.close()
    write_manifest(partial, manifest)


def _unreadable_error(dataset: Dataset, failed: Unreadable) -> UnreadableImagesError:
    shown = "; ".join(f"row {row}: {reason}" for row, reason in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return UnreadableImagesError(
        f"{len(failed)} of {len(dataset)} images of {dataset.name} cannot be read ({shown}{more}); "
        "fix them and prepare again, or skip them with --unreadable skip",
        failed,
    )


def _free_space(path: Path) -> str:
    existing = next((parent for parent in (path, *path.parents) if parent.is_dir()), None)
    if existing is None:
        return ""
    return f" ({shutil.disk_usage(existing).free / 1e9:.1f} GB are free)"
