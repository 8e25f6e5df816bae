"""Strangers' pictures, decoded in a process of its own that has little memory and little time.

A decoder of images is a large program that reads what anybody sends. Here it can neither take the server's
memory nor keep it waiting nor, should it crash, take the server with it.
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

from levelfield.data import ImageError, decode_image
from levelfield.processes import end_with_parent


class BoundedDecoder:
    """Decodes the bytes of pictures within limits; nothing is ever written to disk.

    Its process is started with the first picture, lives on, and is replaced if it dies or takes too long.
    Several threads may share one decoder; they wait for each other.

    Args:
        max_bytes: Larger files are refused unread.
        max_pixels: Pictures that announce more are refused before they are decoded.
        seconds: How long one picture may take.
        memory: Bytes that decoding may take beyond what the process needs to start (where the system can
            limit that; Windows and macOS cannot).

    Example:
        >>> with BoundedDecoder(max_bytes=10) as decoder:
        ...     decoder.decode(b"more than ten bytes")
        Traceback (most recent call last):
        ...
        levelfield.data._files.ImageError: the picture has 19 bytes, the limit is 10; send a smaller one
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
        """The picture as a uint8 tensor 3 x H x W; ImageError, one line, if it is none or breaks a limit."""
        if not data:
            raise ImageError("the picture is empty (0 bytes); send it again")
        if len(data) > self.max_bytes:
            raise ImageError(
                f"the picture has {len(data):,} bytes, the limit is {self.max_bytes:,}; send a smaller one"
            )
        with self._lock:
            return self._ask(data)

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

    def _ask(self, data: bytes) -> Tensor:
        connection = self._running()
        try:
            connection.send_bytes(data)
            if not connection.poll(self.seconds):
                self.close()
                raise ImageError(
                    f"the picture took more than {self.seconds:g} seconds to decode; send another"
                )
            answer = connection.recv()
        except (EOFError, OSError) as error:
            self.close()
            raise ImageError(
                "the picture ended the process that decoded it (out of memory, or damaged on purpose); "
                "send another"
            ) from error
        if isinstance(answer, str):
            raise ImageError(answer)
        return torch.from_numpy(answer).permute(2, 0, 1).contiguous()

    def _running(self) -> Connection:
        if self._worker is not None and not self._worker[0].is_alive():
            self.close()
        if self._worker is None:
            context = multiprocessing.get_context("spawn")  # a fork of torch's threads may hang
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, self.max_pixels, self.memory), daemon=True, name="decoder"
            )
            process.start()
            theirs.close()
            if ours.recv() != "ready":  # the time to start is not the picture's to answer for
                raise RuntimeError("the decoding process did not start")
            self._worker = (process, ours)
        return self._worker[1]


def _serve(connection: Connection, max_pixels: int, memory: int) -> None:
    """In the process: answer each picture with its pixels (H x W x 3) or with a sentence."""
    end_with_parent()
    torch.set_num_threads(1)
    _limit_memory(memory)
    connection.send("ready")
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        connection.send(_decoded(data, max_pixels))


def _decoded(data: bytes, max_pixels: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | str:
    try:
        pixels = decode_image(io.BytesIO(data), name="the picture", max_pixels=max_pixels)
        return np.ascontiguousarray(pixels.permute(1, 2, 0).numpy())
    except ImageError as error:
        return str(error)
    except MemoryError:
        return "the picture needs more memory to decode than it may take; send a smaller one"
    except Exception as error:  # a decoder's own bug is the picture's fault as far as the sender can see
        return f"the picture cannot be decoded ({type(error).__name__}); send another"


def _limit_memory(extra: int) -> None:
    try:
        import resource
        from pathlib import Path

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + extra
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, OSError, ValueError):  # Windows and macOS
        return
