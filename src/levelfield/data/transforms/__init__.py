"""Transforms by name: from decoded images of any size to one batch that a trunk takes.

A transform is called with images (a sequence of uint8 tensors C x H x W) and a generator, and gives one
uint8 tensor B x C x h x w. It never normalises: mean, standard deviation and channel order belong to the
weights, so the trunk applies them. It never touches the global random state, and its result depends on the
images and on the state of the generator alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from levelfield.registry import Card, Registry

__all__ = ["Transform", "TransformCard", "create", "register", "registry"]


class Transform(Protocol):
    """Makes one batch out of decoded images."""

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        """The images (uint8, C x H x W each) as one uint8 tensor of shape B x C x h x w."""
        ...


@dataclass(frozen=True, kw_only=True)
class TransformCard(Card):
    """A transform's card; ``size`` is the side of its output, None where it keeps the images' own."""

    size: int | None = None


registry: Registry[TransformCard] = Registry(
    "transform", TransformCard, package=__name__, supplied=("train",)
)
register = registry.register


def create(name: str, /, *, train: bool, **options: Any) -> Transform:
    """The transform called ``name``, or, with ``train=False``, its evaluation twin.

    Example:
        >>> stack = create("none", train=True)
        >>> stack([torch.zeros(3, 8, 8, dtype=torch.uint8)] * 4, torch.Generator()).shape
        torch.Size([4, 3, 8, 8])
    """
    transform: Transform = registry.create(name, train=train, **options)
    return transform
