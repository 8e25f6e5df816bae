"""Terms that can be added to a loss: a function of the embeddings, or a module that learns; one file each."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from torch import Tensor

from levelfield.registry import Card, Registry

__all__ = ["Regulariser", "RegulariserCard", "create", "register", "registry"]

Regulariser: TypeAlias = Callable[..., Tensor]
"""From embeddings (B x D), and by keyword what its card says it ``sees``, to a scalar."""


@dataclass(frozen=True, kw_only=True)
class RegulariserCard(Card):
    """A regulariser's card.

    Attributes:
        sees: What it is handed besides the embeddings, by keyword: "labels" (B), "proxies" (C x D, the
            weights of a classification loss, without which it cannot be used).
        lr: The default learning rate of the parameters it owns; None if it owns none.
    """

    sees: tuple[Literal["labels", "proxies"], ...] = ()
    lr: float | None = None


registry: Registry[RegulariserCard] = Registry(
    "regulariser", RegulariserCard, package=__name__, supplied=("num_classes", "embedding_size", "seed")
)
register = registry.register


def create(name: str, /, **options: Any) -> Regulariser:
    """The regulariser called ``name``: a function from embeddings (B x D) to a scalar.

    Example:
        >>> import torch
        >>> create("l2")(torch.tensor([[3.0, 4.0]]))
        tensor(25.)
        >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> create("threshold_consistent_margin")(x, labels=y)
        tensor(0.9000)
    """
    entry = registry[name]
    if inspect.isclass(entry.target):
        module: Regulariser = registry.create(name, **options)
        return module
    return partial(entry.target, **registry.check_options(entry, options))
