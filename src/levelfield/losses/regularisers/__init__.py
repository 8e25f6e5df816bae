"""Terms on the embeddings themselves that can be added to any loss; one file each, a pure function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from torch import Tensor

from levelfield.registry import Card, Registry

__all__ = ["Regulariser", "create", "register", "registry"]

Regulariser: TypeAlias = Callable[[Tensor], Tensor]

registry: Registry[Card] = Registry("regulariser", Card, package=__name__)
register = registry.register


def create(name: str, /, **options: Any) -> Regulariser:
    """The regulariser called ``name``: a function from embeddings (B x D) to a scalar.

    Example:
        >>> import torch
        >>> create("l2")(torch.tensor([[3.0, 4.0]]))
        tensor(25.)
    """
    entry = registry[name]
    registry.check_options(entry, options)
    return partial(entry.target, **options)
