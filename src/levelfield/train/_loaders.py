"""Background processes that load and transform images while the network computes.

Each batch is loaded by one process with its own random stream, so its bits do not depend on the number of
processes. Tensors come back through shared memory. The queue of batches is short.
"""

from __future__ import annotations

import logging
import multiprocessing
import pickle
import signal
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Protocol

import torch
import torch.multiprocessing  # registers the pickling of tensors by shared memory
from torch import Tensor

from levelfield.core.errors import RunError, UsageError
from levelfield.core.processes import WATCHDOG_SECONDS, end_with_parent
from levelfield.data import Images, Rows
from levelfield.data.transforms import Transform

# Memory limit of the queue; two batches are allowed in all cases.
MAX_QUEUE_BYTES = 256 << 20
EXIT_SECONDS = 3.0  # for loader processes to end with their process; they have nothing to save


class TransformFactory(Protocol):
    """Creates the transform for training or for evaluation; can be pickled."""

    def __call__(self, *, train: bool) -> Transform:
        """See the class."""
        ...


@dataclass(frozen=True)
class BatchRequest:
    """Rows of one batch, and the seed of its augmentation; None for the evaluation transform."""

    rows: Rows
    seed: int | None


@dataclass(frozen=True)
class ImageParcel:
    """Decoded images of several sizes in one flat tensor, for the transport between processes."""

    pixels: Tensor
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def pack(cls, images: list[Tensor]) -> ImageParcel:
        """Pack ``images``, C x H x W each."""
        return cls(torch.cat([image.flatten() for image in images]), tuple(tuple(i.shape) for i in images))

    def unpack(self) -> list[Tensor]:
        """Return the images, C x H x W each."""
        sizes = [int(torch.Size(shape).numel()) for shape in self.shapes]
        parts = torch.split(self.pixels, sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class BatchLoader:
    """Loads batches of images in the current process.

    Example:
        >>> import numpy as np
        >>> from functools import partial
        >>> from levelfield.data import MemoryImages, transforms
        >>> images = MemoryImages(np.zeros((5, 1, 4, 4), dtype=np.uint8))
        >>> loader = BatchLoader(images, partial(transforms.create, "none"))
        >>> loader.load(BatchRequest(np.array([3, 1]), seed=0)).shape
        torch.Size([2, 1, 4, 4])
    """

    def __init__(self, images: Images, transform: TransformFactory) -> None:
        self._images = images
        self._train, self._evaluate = transform(train=True), transform(train=False)

    def load(self, request: BatchRequest) -> Tensor:
        """Return a transformed batch, B x C x h x w."""
        return self._apply_transform(self._read(request), request)

    def load_in_worker(self, request: BatchRequest) -> Tensor | ImageParcel:
        """Return a transformed batch, or only its images if the transform runs on a GPU."""
        images = self._read(request)
        return (
            ImageParcel.pack(images)
            if self._transforms_on_gpu(request)
            else self._apply_transform(images, request)
        )

    def finish(self, loaded: Tensor | ImageParcel, request: BatchRequest) -> Tensor:
        """Return the transformed batch from the result of :meth:`load_in_worker`."""
        return loaded if isinstance(loaded, Tensor) else self._apply_transform(loaded.unpack(), request)

    def _read(self, request: BatchRequest) -> list[Tensor]:
        return [self._images.read(int(row)) for row in request.rows]

    def _transform(self, request: BatchRequest) -> Transform:
        return self._evaluate if request.seed is None else self._train

    def _transforms_on_gpu(self, request: BatchRequest) -> bool:
        return torch.device(getattr(self._transform(request), "device", "cpu")).type != "cpu"

    def _apply_transform(self, images: list[Tensor], request: BatchRequest) -> Tensor:
        generator = torch.Generator()
        if request.seed is None:
            return self._evaluate(images, generator)
        # A transform may draw from the global generator, as those of torchvision do. It has the same state in
        # every process, and is restored for the network's own draws (dropout).
        before = torch.get_rng_state()
        try:
            torch.default_generator.manual_seed(request.seed)
            return self._train(images, generator.manual_seed(request.seed))
        finally:
            torch.set_rng_state(before)


class LoaderPool:
    """Processes that prefetch batches; they end with :meth:`close`, with this object and with its process.

    Args:
        images: Source of the images.
        transform: Creates the transforms.
        processes: Number of processes, at least 1.
        prepare: Called first in each process; loads the user's plug-ins.
    """

    def __init__(
        self, images: Images, transform: TransformFactory, *, processes: int, prepare: Callable[[], None]
    ) -> None:
        self._processes = processes
        self._loader = BatchLoader(images, transform)
        self._pool = ProcessPoolExecutor(
            processes,
            mp_context=_context(),
            initializer=_initialize_process,
            initargs=(pickle.dumps(prepare), _pickle_source(images, transform)),
        )
        self._end = weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        _open_pools.add(self)

    def close(self) -> None:
        """End the processes; what they are loading is lost."""
        self._end()

    def load(self, requests: Iterable[BatchRequest]) -> Iterator[Tensor]:
        """Yield the batches in the order of ``requests``, which are read a few ahead."""
        remaining = iter(requests)
        waiting: deque[tuple[BatchRequest, Future[Tensor | ImageParcel]]] = deque()

        def submit(most: int) -> None:
            while len(waiting) < most and (request := next(remaining, None)) is not None:
                waiting.append((request, self._pool.submit(_load_in_process, request)))

        try:
            submit(2)
            while waiting:
                request, future = waiting.popleft()
                loaded = self._wait_for(future)
                submit(self._queue_length(loaded))
                yield self._loader.finish(loaded, request)
        except BrokenProcessPool as error:
            raise RunError(
                "a loader process died (killed, out of memory, /dev/shm too small, or a script that calls "
                'lf.run outside of `if __name__ == "__main__":`); give the same command again to go on, with '
                "fewer loaders (--set engine.loaders=0) if memory is short"
            ) from error
        finally:
            for _, future in waiting:
                future.cancel()

    def _wait_for(self, future: Future[Tensor | ImageParcel]) -> Tensor | ImageParcel:
        """Return the result of a loader process; say so each minute that none comes."""
        waited = 0.0
        while True:
            try:
                return future.result(timeout=WATCHDOG_SECONDS)
            except FutureTimeoutError:
                if future.done():  # the error is of the loader itself
                    return future.result()
                waited += WATCHDOG_SECONDS
                logging.getLogger("levelfield").warning(
                    "no batch has come from the loader processes for %d s; still waiting: the disk of the "
                    "images may be slow or gone (--set engine.loaders=0 reads them without processes)",
                    round(waited),
                )

    def _queue_length(self, loaded: Tensor | ImageParcel) -> int:
        """Return the number of batches of this size that may wait in the queue."""
        size = (loaded if isinstance(loaded, Tensor) else loaded.pixels).nbytes
        return max(2, min(2 * self._processes, MAX_QUEUE_BYTES // max(1, size)))


_open_pools: weakref.WeakSet[LoaderPool] = weakref.WeakSet()


def _end_open_pools() -> None:
    """End the loader processes at the end of this process; a stuck one is killed.

    A worker process waits for its children at its end, and they wait for their pool. An error whose traceback
    keeps the pool alive would hang the worker.
    """
    processes = [process for pool in _open_pools for process in list((pool._pool._processes or {}).values())]
    for pool in list(_open_pools):
        pool.close()
    end = time.monotonic() + EXIT_SECONDS
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        if process.exitcode is None:
            process.kill()


# Before the finalizers of the pools' queues (10), which would keep the message to end from the processes.
Finalize(None, _end_open_pools, exitpriority=100)


def no_preparation() -> None:
    """Do nothing; the default preparation of a loader process."""


def _context() -> BaseContext:
    """Return the start method: processes are forked from a small server that has imported torch.

    Forking this process would be unsafe, because it has used threads. Spawning would import torch each time.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "levelfield.data.transforms.paper_crops"])  # with torchvision
    return context


def _pickle_source(images: Images, transform: TransformFactory) -> bytes:
    try:
        return bytes(ForkingPickler.dumps((images, transform)))
    except Exception as error:  # pickling may raise any error
        raise UsageError(
            "the images of this dataset cannot be sent to loader processes "
            f"({type(error).__name__}: {error}); set engine.loaders to 0"
        ) from error


_source: tuple[bytes, bytes] | None = None  # of a loader process: pickled preparation, pickled images
_loader: BatchLoader | None = None


def _initialize_process(prepare: bytes, source: bytes) -> None:
    """Initialize a loader process; an error here would look like the death of the process."""
    global _source  # noqa: PLW0603 - a loader process serves one dataset
    _source = prepare, source
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    end_with_parent()


def _load_in_process(request: BatchRequest) -> Tensor | ImageParcel:
    """Return one batch in a loader process."""
    global _loader  # noqa: PLW0603 - see above
    if _loader is None:
        assert _source is not None
        try:
            pickle.loads(_source[0])()
            images, transform = pickle.loads(_source[1])
        except (ImportError, AttributeError) as error:
            raise RunError(
                f"a loader process cannot import what it needs ({type(error).__name__}: {error}); move it to "
                "a plug-in file, or set engine.loaders to 0"
            ) from error
        torch.set_num_threads(1)
        _loader = BatchLoader(images, transform)
    return _loader.load_in_worker(request)
