"""Terms on the embeddings themselves that can be added to any loss; one file each, a pure function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from levelfield.miners import Tuples
from levelfield.registry import Card, Registry

__all__ = ["Regularised", "Regulariser", "create", "register", "registry"]

Regulariser: TypeAlias = Callable[[Tensor], Tensor]

registry: Registry[Card] = Registry("regulariser", Card, package=__name__)
register = registry.register


def create(name: str, /, **options: Any) -> Regulariser:
    """The regulariser called ``name``: a function from embeddings (B x D) to a scalar.

    Example:
        >>> create("l2")(torch.tensor([[3.0, 4.0]]))
        tensor(25.)
    """
    entry = registry[name]
    registry.check_options(entry, options)
    return partial(entry.target, **options)


class Regularised(nn.Module):
    """A loss plus weighted regularisers; used like the loss itself, whose parameters it holds.

    Args:
        loss: Any loss.
        weights: The weight of each regulariser by its registered name.

    Example:
        >>> from levelfield import losses
        >>> loss = Regularised(losses.create("triplet"), {"l2": 0.005, "koleo": 0.1})
        >>> loss(torch.eye(3), torch.tensor([0, 0, 1])).ndim
        0
    """

    def __init__(self, loss: nn.Module, weights: Mapping[str, float]) -> None:
        super().__init__()
        self.loss = loss
        self.terms = [(float(weight), create(name)) for name, weight in weights.items()]

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None) -> Tensor:
        """The loss of ``embeddings`` (B x D) with ``labels`` (B) and the terms: a scalar."""
        total: Tensor = self.loss(embeddings, labels, tuples)
        vectors = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        for weight, term in self.terms:
            total = total + weight * term(vectors)
        return total
