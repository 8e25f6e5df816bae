"""Preparing a store: decode what is not decoded yet, append it, and give the store its final name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from levelfield.data._dataset import Dataset
from levelfield.data.store._decode import decode, decode_one
from levelfield.data.store._format import (
    Manifest,
    read_index,
    read_manifest,
    store_path,
    write_manifest,
)
from levelfield.data.store._writer import Writer
from levelfield.errors import RunError, UsageError
from levelfield.files import flush_folder, lock, make_folder

Progress = Callable[[int, int], None]
Unreadable = tuple[tuple[int, str], ...]


class UnreadableImagesError(RunError):
    """Some images cannot be read; ``unreadable`` holds each row with the reason."""

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
    """Decode and resize every image of ``dataset`` once and keep them in ``directory``.

    It can be stopped or killed at any moment and goes on where it was when it is called again; the finished
    store has the same bytes either way, and with any number of workers. A store that is finished already is
    left as it is.

    Args:
        dataset: The dataset to prepare.
        directory: Where stores are kept, by default in levelfield's cache folder; each gets a directory of
            its own, named after the dataset's fingerprint and the resize.
        resize: What the shorter side of each image is brought to, up or down; None keeps the original size.
        unreadable: "refuse" to finish while some images cannot be read, or "skip" them.
        workers: How many processes decode.
        progress: Called with the number of finished images and of all images.

    Returns:
        The directory of the finished store.

    Raises:
        UnreadableImagesError: Some images cannot be read and ``unreadable`` is "refuse". The others are kept.
        RunError: The disk is full, or not to be written to. What was prepared is kept.
    """
    if resize is not None and resize < 1:
        raise UsageError(f"resize needs a number of pixels of 1 or more, or none, got {resize}")
    if len(dataset) == 0:
        raise UsageError(f"dataset {dataset.name} has no images to prepare")
    path = store_path(directory, name=dataset.name, fingerprint=dataset.fingerprint, resize=resize)
    partial = path.with_name(path.name + ".partial")
    try:
        if path.exists() and not _reopen(dataset, path, partial, unreadable):
            progress(len(dataset), len(dataset))
            return path
        make_folder(partial)
        with lock(partial, busy=f"another process is preparing {partial}; wait until it has finished"):
            _fill(dataset, partial, resize=resize, workers=workers, policy=unreadable, progress=progress)
            partial.rename(path)
            flush_folder(path.parent)
    except OSError as error:
        raise RunError(
            f"cannot write the image store {partial}: {error.strerror or error}; what was prepared is kept: "
            "make room or mend it and prepare again, or let LEVELFIELD_CACHE name another folder"
            f"{_free(partial)}"
        ) from error
    return path


def _reopen(dataset: Dataset, path: Path, partial: Path, policy: Literal["refuse", "skip"]) -> bool:
    """Whether the finished store was taken up again, because images that it skipped can now be read."""
    manifest = read_manifest(path)
    read_index(path, manifest)
    if policy == "skip" or not manifest.unreadable:
        return False
    still = [
        (row, reason)
        for row, _ in manifest.unreadable
        if isinstance(reason := decode_one(dataset.images, row, manifest.resize), str)
    ]
    if still:
        raise _refusal(dataset, tuple(still))
    path.rename(partial)
    return True


def _fill(
    dataset: Dataset,
    partial: Path,
    *,
    resize: int | None,
    workers: int,
    policy: Literal["refuse", "skip"],
    progress: Progress,
) -> None:
    writer = Writer(partial)
    try:
        todo = np.setdiff1d(np.arange(len(dataset)), writer.rows)
        done = len(dataset) - len(todo)
        progress(done, len(dataset))
        failed = []
        for row, result in decode(dataset.images, todo, resize=resize, workers=workers):
            if isinstance(result, str):
                failed.append((row, result))
            else:
                writer.add(row, result)
            done += 1
            progress(done, len(dataset))
        writer.commit()
        if failed and (policy == "refuse" or len(failed) == len(dataset)):
            raise _refusal(dataset, tuple(failed))
        manifest = Manifest(
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


def _refusal(dataset: Dataset, failed: Unreadable) -> UnreadableImagesError:
    shown = "; ".join(f"row {row}: {reason}" for row, reason in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return UnreadableImagesError(
        f"{len(failed)} of {len(dataset)} images of {dataset.name} cannot be read ({shown}{more}); "
        "mend them and prepare again, or skip them with --unreadable skip",
        failed,
    )


def _free(path: Path) -> str:
    existing = next((parent for parent in (path, *path.parents) if parent.is_dir()), None)
    if existing is None:
        return ""
    return f" ({shutil.disk_usage(existing).free / 1e9:.1f} GB are free)"
