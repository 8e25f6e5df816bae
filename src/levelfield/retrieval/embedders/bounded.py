"""Decoding of untrusted images in a separate process with limits on memory and time.

Image decoders are large programs, and uploads are untrusted. A separate process keeps a bad image from
using up the server's memory, blocking it or crashing it.
"""

from __future__ import annotations

import io
import multiprocessing
import threading
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from levelfield.core.processes import end_with_parent
from levelfield.data import ImageError, decode_image


class BoundedDecoder:
    """Decoder of untrusted image bytes with limits; nothing is written to disk.

    The process starts with the first image and is reused. It is replaced if it dies or exceeds the time
    limit. Threads can share one decoder; they take turns.

    Args:
        max_bytes: Larger files are rejected before they are read.
        max_pixels: Images with more pixels in their header are rejected before they are decoded.
        seconds: Time limit per image.
        memory: Bytes that decoding may use in addition to the memory of the started process. Not enforced on
            Windows and macOS.

    Example:
        >>> with BoundedDecoder(max_bytes=10) as decoder:
        ...     decoder.decode(b"more than ten bytes")
        Traceback (most recent call last):
        ...
        levelfield.data._image_files.ImageError: the image has 19 bytes, the limit is 10; send a smaller one
    """

    def __init__(
        self,
        *,
        max_bytes: int = 20_000_000,
        max_pixels: int = 40_000_000,
        seconds: float = 10.0,
        memory: int = 1 << 30,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_pixels = max_pixels
        self.seconds = seconds
        self.memory = memory
        self._lock = threading.Lock()
        self._worker: tuple[BaseProcess, Connection] | None = None

    def decode(self, data: bytes) -> Tensor:
        """Return the image as a uint8 tensor 3 x H x W.

        Raises:
            ImageError: The data is not an image, or exceeds a limit.
        """
        if not data:
            raise ImageError("the image is empty (0 bytes); send it again")
        if len(data) > self.max_bytes:
            raise ImageError(
                f"the image has {len(data):,} bytes, the limit is {self.max_bytes:,}; send a smaller one"
            )
        with self._lock:
            return self._request(data)

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            process, connection = self._worker
            self._worker = None
            connection.close()
            process.kill()
            process.join()

    def __enter__(self) -> BoundedDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, data: bytes) -> Tensor:
        connection = self._ensure_worker()
        try:
            connection.send_bytes(data)
            if not connection.poll(self.seconds):
                self.close()
                raise ImageError(f"the image took more than {self.seconds:g} seconds to decode; send another")
            answer = connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise ImageError(
                "the image crashed the process that decoded it (out of memory, or damaged on purpose); "
                "send another"
            ) from error
        if isinstance(answer, str):
            raise ImageError(answer)
        return torch.from_numpy(answer).permute(2, 0, 1).contiguous()

    def _ensure_worker(self) -> Connection:
        """Start the process if it is not running; return the connection to it."""
        if self._worker is not None and not self._worker[0].is_alive():
            self.close()
        if self._worker is None:
            context = multiprocessing.get_context("spawn")  # forking with torch threads can hang
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, self.max_pixels, self.memory), daemon=True, name="decoder"
            )
            process.start()
            theirs.close()
            if ours.recv() != "ready":  # wait for the start, so that it does not count as decoding time
                raise RuntimeError("the decoding process did not start")
            self._worker = (process, ours)
        return self._worker[1]


def _serve(connection: Connection, max_pixels: int, memory: int) -> None:
    """Answer each image with its pixels (H x W x 3) or an error message; runs in the worker process."""
    end_with_parent()
    torch.set_num_threads(1)
    _limit_memory(memory)
    connection.send("ready")
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        connection.send(_decode(data, max_pixels))


def _decode(data: bytes, max_pixels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | str:
    try:
        pixels = decode_image(io.BytesIO(data), name="the image", max_pixels=max_pixels)
        return np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())
    except ImageError as error:
        return str(error)
    except MemoryError:
        return "the image needs more memory to decode than the limit allows; send a smaller one"
    except Exception as error:  # a bug in a decoder; for the sender it is a bad image
        return f"the image cannot be decoded ({type(error).__name__}); send another"


def _limit_memory(extra: int) -> None:
    try:
        import resource
        from pathlib import Path

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + extra
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):  # Windows and macOS
        return
