"""Background processes that read, crop and stack pictures while the network computes.

A batch is made whole by one process, from a random stream of its own, so its bits do not depend on how many
processes there are. Tensors come back through shared memory. Few batches are under way at a time.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Protocol

import torch
import torch.multiprocessing  # registers the pickling of tensors by shared memory
from torch import Tensor

from levelfield.data import Images, Rows
from levelfield.data.transforms import Transform
from levelfield.errors import RunError, UsageError
from levelfield.processes import end_with_parent

# Batches that wait take at most so much memory, or two of them do if they are larger.
LARGEST_QUEUE = 256 << 20


class MakeTransform(Protocol):
    """Makes the transform of training, or its evaluation twin; can be sent to another process."""

    def __call__(self, *, train: bool) -> Transform:
        """See the class."""
        ...


@dataclass(frozen=True)
class Request:
    """The rows of one batch, and the seed of its augmentation; None asks for images as they are measured."""

    rows: Rows
    seed: int | None


@dataclass(frozen=True)
class Pictures:
    """Decoded images of several sizes, laid end to end so that they travel as one tensor."""

    pixels: Tensor
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, images: list[Tensor]) -> Pictures:
        """Lay ``images`` (C x H x W each) end to end."""
        return cls(torch.cat([image.flatten() for image in images]), tuple(tuple(i.shape) for i in images))

    def images(self) -> list[Tensor]:
        """The images again."""
        sizes = [int(torch.Size(shape).numel()) for shape in self.shapes]
        parts = torch.split(self.pixels, sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class BatchMaker:
    """Makes batches of images, in whichever process.

    Example:
        >>> import numpy as np
        >>> from functools import partial
        >>> from levelfield.data import MemoryImages, transforms
        >>> images = MemoryImages(np.zeros((5, 1, 4, 4), dtype=np.uint8))
        >>> maker = BatchMaker(images, partial(transforms.create, "none"))
        >>> maker.batch(Request(np.array([3, 1]), seed=0)).shape
        torch.Size([2, 1, 4, 4])
    """

    def __init__(self, images: Images, transform: MakeTransform) -> None:
        self._images = images
        self._train, self._evaluate = transform(train=True), transform(train=False)

    def batch(self, request: Request) -> Tensor:
        """The finished batch, B x C x h x w."""
        return self._transformed(self._read(request), request)

    def far(self, request: Request) -> Tensor | Pictures:
        """What a background process makes: the batch, or only its images if a GPU is to transform them."""
        images = self._read(request)
        return Pictures.of(images) if self._wants_gpu(request) else self._transformed(images, request)

    def finished(self, made: Tensor | Pictures, request: Request) -> Tensor:
        """The batch, out of what :meth:`far` gave."""
        return made if isinstance(made, Tensor) else self._transformed(made.images(), request)

    def _read(self, request: Request) -> list[Tensor]:
        return [self._images.read(int(row)) for row in request.rows]

    def _transform(self, request: Request) -> Transform:
        return self._evaluate if request.seed is None else self._train

    def _wants_gpu(self, request: Request) -> bool:
        return torch.device(getattr(self._transform(request), "device", "cpu")).type != "cpu"

    def _transformed(self, images: list[Tensor], request: Request) -> Tensor:
        generator = torch.Generator()
        if request.seed is None:
            return self._evaluate(images, generator)
        # A transform may draw from the global generator, as torchvision's do. They all find it in the same
        # state in every process, and the network's own draws (dropout) find it as if nothing had happened.
        before = torch.get_rng_state()
        try:
            torch.default_generator.manual_seed(request.seed)
            return self._train(images, generator.manual_seed(request.seed))
        finally:
            torch.set_rng_state(before)


class Loaders:
    """Processes that make batches ahead of time; they end when this object, or its process, is gone.

    Args:
        images: Where pictures are read from.
        transform: What makes batches of them.
        processes: How many processes there are, at least 1.
        prepare: Called in each process before anything else; loads the user's plug-ins.
    """

    def __init__(
        self, images: Images, transform: MakeTransform, *, processes: int, prepare: Callable[[], None]
    ) -> None:
        self._processes = processes
        self._near = BatchMaker(images, transform)
        self._pool = ProcessPoolExecutor(
            processes,
            mp_context=_context(),
            initializer=_begin,
            initargs=(pickle.dumps(prepare), _pickled(images, transform)),
        )
        weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)

    def batches(self, requests: Iterable[Request]) -> Iterator[Tensor]:
        """The batches in the order of ``requests``, which are read a little ahead."""
        unasked = iter(requests)
        waiting: deque[tuple[Request, Future[Tensor | Pictures]]] = deque()

        def ask(most: int) -> None:
            while len(waiting) < most and (request := next(unasked, None)) is not None:
                waiting.append((request, self._pool.submit(_make, request)))

        try:
            ask(2)
            while waiting:
                request, future = waiting.popleft()
                made = future.result()
                ask(self._queue_length(made))
                yield self._near.finished(made, request)
        except BrokenProcessPool as error:
            raise RunError(
                "a loader process died (killed, out of memory, /dev/shm too small, or a script that calls "
                'lf.run outside of `if __name__ == "__main__":`); give the same command again to go on, with '
                "fewer loaders (--set engine.loaders=0) if memory is short"
            ) from error
        finally:
            for _, future in waiting:
                future.cancel()

    def _queue_length(self, made: Tensor | Pictures) -> int:
        """How many batches like this one may be under way."""
        size = (made if isinstance(made, Tensor) else made.pixels).nbytes
        return max(2, min(2 * self._processes, LARGEST_QUEUE // max(1, size)))


def nothing() -> None:
    """What a loader prepares where there are no plug-ins to load."""


def _context() -> BaseContext:
    """Processes are forked from a small server that has imported torch and used nothing of it.

    Forking this process would be unsafe, as it has used threads; spawning would import torch anew each time.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "levelfield.data.transforms.recipes"])  # with torchvision
    return context


def _pickled(images: Images, transform: MakeTransform) -> bytes:
    try:
        return bytes(ForkingPickler.dumps((images, transform)))
    except Exception as error:  # pickling raises whatever the objects raise
        raise UsageError(
            "the images of this dataset cannot be sent to loader processes "
            f"({type(error).__name__}: {error}); set engine.loaders to 0"
        ) from error


_job: tuple[bytes, bytes] | None = None
_maker: BatchMaker | None = None


def _begin(prepare: bytes, source: bytes) -> None:
    """In a loader: only what cannot fail; an error would here be taken for a death."""
    global _job  # noqa: PLW0603 - a loader serves one dataset
    _job = prepare, source
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, and the end of it ours
    end_with_parent()


def _make(request: Request) -> Tensor | Pictures:
    """In a loader: one batch."""
    global _maker  # noqa: PLW0603 - see above
    if _maker is None:
        assert _job is not None
        try:
            pickle.loads(_job[0])()
            images, transform = pickle.loads(_job[1])
        except (ImportError, AttributeError) as error:
            raise RunError(
                f"a loader process cannot import what it needs ({type(error).__name__}: {error}); move it to "
                "a plug-in file, or set engine.loaders to 0"
            ) from error
        torch.set_num_threads(1)
        _maker = BatchMaker(images, transform)
    return _maker.far(request)
