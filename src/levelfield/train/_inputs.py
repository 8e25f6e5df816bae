"""Inputs of a network: transformed images, or cached outputs of a frozen network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from levelfield.core.seeds import seed_for, torch_generator
from levelfield.data import Images, Rows
from levelfield.train._loaders import BatchLoader, BatchRequest, LoaderPool, TransformFactory, no_preparation

Stream: TypeAlias = tuple[str | int, ...]


class Inputs(Protocol):
    """Source of input batches for rows of one dataset view."""

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[Tensor]:
        """Return the augmented inputs of each batch of ``plan``.

        Args:
            plan: Rows of each batch.
            stream: Name of the random stream for all random choices.
            ahead: Whether batches may be prefetched; False if later rows depend on earlier training steps.
        """
        ...

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[Tensor]:
        """Return the inputs of each batch of ``plan`` without randomness."""
        ...

    def close(self) -> None:
        """End what loads the inputs in the background."""
        ...


class ImageInputs:
    """Transformed images; each batch has its own random stream.

    Args:
        images: Source of the images.
        transform: Creates the transforms for training and evaluation.
        loaders: Number of background processes that prefetch batches; 0 loads them in this process. The bits
            are the same.
        prepare: Called first in each background process.

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
        transform: TransformFactory,
        *,
        loaders: int = 0,
        prepare: Callable[[], None] = no_preparation,
    ) -> None:
        self._loader = BatchLoader(images, transform)
        self._create_pool = partial(LoaderPool, images, transform, processes=loaders, prepare=prepare)
        self._processes = loaders
        self._pool: LoaderPool | None = None

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[Tensor]:
        """See :class:`Inputs`."""
        requests = (BatchRequest(rows, seed_for(*stream, step)) for step, rows in enumerate(plan))
        return self._batches(requests, ahead=ahead)

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[Tensor]:
        """See :class:`Inputs`."""
        return self._batches((BatchRequest(rows, None) for rows in plan), ahead=True)

    def _batches(self, requests: Iterable[BatchRequest], *, ahead: bool) -> Iterator[Tensor]:
        if self._processes == 0 or not ahead:
            return map(self._loader.load, requests)
        if self._pool is None:
            self._pool = self._create_pool()
        return self._pool.load(requests)

    def close(self) -> None:
        """End the background processes; the next batch starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None


class FeatureInputs:
    """Cached outputs of a frozen network: one plain view and any number of augmented views per image.

    Args:
        plain: N x F features, or N x ... activations, of the evaluation crop; float32 or float16.
        views: Outputs of augmented crops, V x N x ...; training draws one per image. None: ``plain`` only.
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

    def close(self) -> None:
        """See :class:`Inputs`; nothing runs in the background."""
