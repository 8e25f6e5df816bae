"""Synthesis: samples, classes or pairs that are not in the batch but made from it, for a loss to work on too.

A synthesis is handed a batch and a function that gives the loss of any batch, its own made-up ones included.
It is one file with a card; ``Method`` lets a recipe name one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from levelfield.geometry import Tuples
from levelfield.losses._module import Loss
from levelfield.registry import Card, Registry

__all__ = ["LossOf", "Samples", "Synthesis", "SynthesisCard", "create", "register", "registry"]


@dataclass(frozen=True)
class Samples:
    """What a loss can be computed on.

    Attributes:
        embeddings: N x D.
        labels: N.
        proxies: C x D; None if the loss has none.
        tuples: The pairs or triplets that count; None leaves them to the miner, or means all.
    """

    embeddings: Tensor
    labels: Tensor
    proxies: Tensor | None = None
    tuples: Tuples | None = None


LossOf: TypeAlias = Callable[[Samples], Tensor]


class Synthesis(Loss):
    """Base of the syntheses; each implements ``forward``."""

    def forward(self, batch: Samples, loss_of: LossOf, *, generator: torch.Generator) -> Tensor:
        """The loss of a batch, with what is made from it.

        Args:
            batch: The samples, with the loss's proxies if it has any.
            loss_of: The loss, a scalar, of any samples.
            generator: Of everything random; on the CPU.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SynthesisCard(Card):
    """A synthesis's card.

    Attributes:
        needs: What the loss must work on: "proxies", one for each class, or "pairs".
        losses: The losses it is defined for; empty means all that have what it needs.
        amount: Which option ``synthesis.NAME`` sets; it turns the synthesis on.
    """

    needs: Literal["proxies", "pairs"]
    losses: tuple[str, ...] = ()
    amount: str


registry: Registry[SynthesisCard] = Registry("synthesis", SynthesisCard, package=__name__)
register = registry.register


def create(name: str, /, **options: Any) -> Synthesis:
    """The synthesis called ``name``, e.g. ``create("proxy_synthesis", ratio=1.0)``."""
    made: Synthesis = registry.create(name, **options)
    return made
