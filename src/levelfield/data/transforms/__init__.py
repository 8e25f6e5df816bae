"""Transforms: decoded images of any size to one batch for a trunk.

A transform is called with images (a sequence of uint8 tensors C x H x W) and a generator. It returns one
uint8 tensor B x C x h x w. It does not normalize: the trunk applies mean, standard deviation and channel
order, because they belong to the weights. It does not use the global random state: the result depends only on
the images and the state of the generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from levelfield.core.registry import Card, Registry

__all__ = ["Transform", "TransformCard", "create", "register", "registry"]


class Transform(Protocol):
    """Function from decoded images to one batch."""

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        """Return the images (uint8, C x H x W each) as one uint8 tensor of shape B x C x h x w."""
        ...


@dataclass(frozen=True, kw_only=True)
class TransformCard(Card):
    """Card of a transform; ``size`` is the side of its output in pixels, None if images keep their size."""

    size: int | None = None


registry = Registry("transform", TransformCard, package=__name__, supplied=("train",))
register = registry.register


def create(name: str, /, *, train: bool, **options: Any) -> Transform:
    """Return the training transform called ``name``, or its evaluation transform if ``train`` is False.

    Example:
        >>> stack = create("none", train=True)
        >>> stack([torch.zeros(3, 8, 8, dtype=torch.uint8)] * 4, torch.Generator()).shape
        torch.Size([4, 3, 8, 8])
    """
    transform: Transform = registry.create(name, train=train, **options)
    return transform
