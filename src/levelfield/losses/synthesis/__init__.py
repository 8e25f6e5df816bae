"""Synthesis: synthetic samples, classes or pairs that are made from a batch and added to the loss.

A synthesis receives a batch and a function that computes the loss of any batch. Each is a class in its own
file, with a card; ``Method`` lets a recipe name one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor

from levelfield.core.geometry import MinedTuples
from levelfield.core.lazy import lazy_exports
from levelfield.core.registry import Card, Registry
from levelfield.losses._module import Loss

if TYPE_CHECKING:
    from levelfield.losses.synthesis.memvir import MemVir
    from levelfield.losses.synthesis.metrix import Metrix
    from levelfield.losses.synthesis.proxy_synthesis import ProxySynthesis

__all__ = [
    "LossFunction",
    "LossInputs",
    "MemVir",
    "Metrix",
    "ProxySynthesis",
    "Synthesis",
    "SynthesisCard",
    "create",
    "register",
    "registry",
]


@dataclass(frozen=True)
class LossInputs:
    """Inputs of a loss.

    Attributes:
        embeddings: N x D.
        labels: N.
        proxies: C x D; None if the loss has none.
        tuples: Pairs or triplets to use; None means those of the miner, or all without a miner.
    """

    embeddings: Tensor
    labels: Tensor
    proxies: Tensor | None = None
    tuples: MinedTuples | None = None


LossFunction: TypeAlias = Callable[[LossInputs], Tensor]
"""Function from inputs to a scalar loss."""


class Synthesis(Loss):
    """Base class of the syntheses; subclasses implement ``forward``."""

    def forward(self, batch: LossInputs, loss_fn: LossFunction, *, generator: torch.Generator) -> Tensor:
        """Return the loss of a batch and the synthetic samples made from it.

        Args:
            batch: The samples, with the loss's proxies if it has any.
            loss_fn: Function that returns the scalar loss of any inputs.
            generator: CPU generator of all random numbers.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SynthesisCard(Card):
    """A synthesis's card.

    Attributes:
        needs: Requirement on the loss: "proxies", one per class, or "pairs".
        losses: Losses it is defined for; empty means all that meet ``needs``.
        amount: Option that ``synthesis.NAME`` sets, which turns the synthesis on.
        recorded: Options that are always part of a run's identity, because their default has changed.
    """

    needs: Literal["proxies", "pairs"]
    losses: tuple[str, ...] = ()
    amount: str
    recorded: tuple[str, ...] = ()


registry = Registry("synthesis", SynthesisCard, package=__name__)
register = registry.register


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.losses.synthesis.memvir": ("MemVir",),
        "levelfield.losses.synthesis.metrix": ("Metrix",),
        "levelfield.losses.synthesis.proxy_synthesis": ("ProxySynthesis",),
    },
)


def create(name: str, /, **options: Any) -> Synthesis:
    """Return the synthesis called ``name``, e.g. ``create("proxy_synthesis", ratio=1.0)``."""
    made: Synthesis = registry.create(name, **options)
    return made
