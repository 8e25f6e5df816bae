"""What a network is fed: decoded and cropped images, or what a frozen network gives, computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from levelfield.data import Images, Rows
from levelfield.seeds import seed_for, torch_generator
from levelfield.train._loaders import BatchMaker, Loaders, MakeTransform, Request, nothing

Stream: TypeAlias = tuple[str | int, ...]


class Inputs(Protocol):
    """Batches of network inputs for rows of one dataset view, one after the other."""

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[Tensor]:
        """Augmented inputs of each batch of ``plan``.

        Args:
            plan: The rows of each batch.
            stream: The name of the random stream that all random choices come from.
            ahead: Whether the plan may be read before the batches are asked for; not if later rows depend
                on what earlier batches taught.
        """
        ...

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[Tensor]:
        """Inputs as they are measured: no randomness."""
        ...


class ImageInputs:
    """Images through a transform; each batch has a random stream of its own.

    Args:
        images: Where they are read from.
        transform: Makes the transform of training and its evaluation twin.
        loaders: How many background processes make batches ahead of time; 0 makes them when they are asked
            for. The bits are the same.
        prepare: Called in each of these processes first.

    Example:
        >>> import numpy as np
        >>> from functools import partial
        >>> from levelfield.data import MemoryImages, transforms
        >>> images = MemoryImages(np.zeros((5, 1, 4, 4), dtype=np.uint8))
        >>> inputs = ImageInputs(images, partial(transforms.create, "none"))
        >>> [len(batch) for batch in inputs.evaluate([np.array([0, 1]), np.array([2])])]
        [2, 1]
    """

    def __init__(
        self,
        images: Images,
        transform: MakeTransform,
        *,
        loaders: int = 0,
        prepare: Callable[[], None] = nothing,
    ) -> None:
        self._here = BatchMaker(images, transform)
        self._start = partial(Loaders, images, transform, processes=loaders, prepare=prepare)
        self._processes = loaders
        self._loaders: Loaders | None = None

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[Tensor]:
        """See :class:`Inputs`."""
        requests = (Request(rows, seed_for(*stream, step)) for step, rows in enumerate(plan))
        return self._batches(requests, ahead=ahead)

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[Tensor]:
        """See :class:`Inputs`."""
        return self._batches((Request(rows, None) for rows in plan), ahead=True)

    def _batches(self, requests: Iterable[Request], *, ahead: bool) -> Iterator[Tensor]:
        if self._processes == 0 or not ahead:
            return map(self._here.batch, requests)
        if self._loaders is None:
            self._loaders = self._start()
        return self._loaders.batches(requests)


class FeatureInputs:
    """What a frozen network gives: one plain view, and any number of augmented views per image.

    Args:
        plain: N x F features, or N x ... activations, of the evaluation crop; float32 or float16.
        views: The same of augmented crops, V x N x ...; training draws one per image. None: trains on plain.
    """

    def __init__(self, plain: Tensor, views: Tensor | None = None) -> None:
        self._plain = plain
        self._views = views

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[Tensor]:
        """See :class:`Inputs`."""
        if self._views is None:
            yield from self.evaluate(plan)
            return
        generator = torch_generator(*stream)
        for rows in plan:
            view = torch.randint(len(self._views), (len(rows),), generator=generator)
            yield self._views[view, torch.from_numpy(rows)].float()

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[Tensor]:
        """See :class:`Inputs`."""
        for rows in plan:
            yield self._plain.index_select(0, torch.from_numpy(rows)).float()
