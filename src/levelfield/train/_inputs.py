"""What a network is fed: decoded and cropped images, or what a frozen network gives, computed once."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from levelfield.data import Images, Rows
from levelfield.data.transforms import Transform


class Inputs(Protocol):
    """Batches of network inputs for rows of one dataset view."""

    def train(self, rows: Rows, generator: torch.Generator) -> Tensor:
        """Augmented inputs; random choices come from ``generator`` alone."""
        ...

    def evaluate(self, rows: Rows) -> Tensor:
        """Inputs as they are measured: no randomness."""
        ...


class ImageInputs:
    """Images through transforms."""

    def __init__(self, images: Images, *, train: Transform, evaluate: Transform) -> None:
        self._images = images
        self._train = train
        self._evaluate = evaluate

    def train(self, rows: Rows, generator: torch.Generator) -> Tensor:
        """See :class:`Inputs`."""
        return self._train([self._images.read(int(row)) for row in rows], generator)

    def evaluate(self, rows: Rows) -> Tensor:
        """See :class:`Inputs`."""
        return self._evaluate([self._images.read(int(row)) for row in rows], torch.Generator())


class FeatureInputs:
    """What a frozen network gives: one plain view, and any number of augmented views per image.

    Args:
        plain: N x F features, or N x ... activations, of the evaluation crop; float32 or float16.
        views: The same of augmented crops, V x N x ...; training draws one per image. None: trains on plain.
    """

    def __init__(self, plain: Tensor, views: Tensor | None = None) -> None:
        self._plain = plain
        self._views = views

    def train(self, rows: Rows, generator: torch.Generator) -> Tensor:
        """See :class:`Inputs`."""
        index = torch.from_numpy(rows)
        if self._views is None:
            return self._plain[index].float()
        view = torch.randint(len(self._views), (len(rows),), generator=generator)
        return self._views[view, index].float()

    def evaluate(self, rows: Rows) -> Tensor:
        """See :class:`Inputs`."""
        return self._plain[torch.from_numpy(rows)].float()
