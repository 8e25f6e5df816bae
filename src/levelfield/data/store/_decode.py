"""Decode many images in order, with several processes."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.errors import RunError
from levelfield.core.processes import end_with_parent
from levelfield.data._dataset import Images, Rows
from levelfield.data.transforms._resample import resize_shorter

Pixels: TypeAlias = npt.NDArray[np.uint8]
START_METHOD = "spawn"  # a fork of a process with torch's threads may hang
CHUNK = 16  # images per message between processes
MAX_PIXELS = 1 << 26  # after the resize; 1 x 5000 pixels would grow to a gigabyte at resize 256


def decode_rows(
    images: Images, rows: Rows, *, resize: int | None, workers: int
) -> Iterator[tuple[int, Pixels | str]]:
    """Yield each row with its pixels (uint8, H x W x C), or with the reason why it cannot be read.

    Args:
        images: Images to read from.
        rows: Row numbers, in the order to decode.
        resize: Shorter side after the resize, in pixels; None keeps the original size.
        workers: Number of decoding processes. This process decodes by itself if ``workers`` is below 2, if
            the images cannot be pickled, or if there are too few rows to be worth a process.

    Example:
        >>> class Blank:
        ...     def read(self, row):
        ...         return torch.zeros(3, 2, 2, dtype=torch.uint8)
        >>> [(row, pixels.shape) for row, pixels in decode_rows(Blank(), np.array([7]), resize=4, workers=1)]
        [(7, (4, 4, 3))]
    """
    if workers < 2 or len(rows) < 4 * CHUNK or not _is_picklable(images):
        for row in rows.tolist():
            yield row, decode_row(images, row, resize)
        return
    context = multiprocessing.get_context(START_METHOD)
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(images, resize))
    try:
        yield from _in_order(pool, rows, ahead=2 * workers)
    except BrokenProcessPool as error:
        raise RunError(
            "a decoding process died (out of memory, or it cannot import the class of the images); "
            "decoded images are kept: prepare again with workers=1"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def decode_row(images: Images, row: int, resize: int | None) -> Pixels | str:
    """Return the resized pixels of one image, H x W x C, or the reason why it cannot be read."""
    try:
        image = images.read(row)
    except MemoryError:
        raise
    except Exception as error:
        return " ".join(f"{error or type(error).__name__}".split())
    if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in {1, 3} or 0 in image.shape:
        return f"it is {image.dtype} of shape {tuple(image.shape)}, not uint8 of shape 1 or 3 x H x W"
    if resize is not None:
        height, width = image.shape[1:]
        if height * width * (resize / min(height, width)) ** 2 > MAX_PIXELS:
            return f"{width} x {height} pixels are too narrow to be resized to {resize}"
        image = resize_shorter(image, resize)
    return np.ascontiguousarray(image.permute(1, 2, 0).numpy())


def _in_order(pool: ProcessPoolExecutor, rows: Rows, *, ahead: int) -> Iterator[tuple[int, Pixels | str]]:
    """Yield results in order; at most ``ahead`` chunks are in flight, so that memory stays bounded."""
    waiting: deque[tuple[list[int], Future[list[Pixels | str]]]] = deque()
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK].tolist()
        waiting.append((chunk, pool.submit(_decode_chunk, chunk)))
        if len(waiting) > ahead:
            done, future = waiting.popleft()
            yield from zip(done, future.result(), strict=True)
    for done, future in waiting:
        yield from zip(done, future.result(), strict=True)


def _is_picklable(images: Images) -> bool:
    try:
        pickle.dumps(images)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


_work: tuple[Images, int | None] | None = None


def _start_worker(images: Images, resize: int | None) -> None:
    global _work  # noqa: PLW0603 - sent once per process instead of with every chunk
    _work = (images, resize)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    end_with_parent()


def _decode_chunk(rows: list[int]) -> list[Pixels | str]:
    assert _work is not None
    images, resize = _work
    return [decode_row(images, row, resize) for row in rows]
