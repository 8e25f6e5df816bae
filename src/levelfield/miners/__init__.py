"""Miners choose the pairs or triplets of a batch that a loss works on; one file each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from torch import Tensor

from levelfield.miners._tuples import Pairs, Triplets, Tuples
from levelfield.registry import Card, Registry

__all__ = ["Miner", "MinerCard", "Pairs", "Triplets", "Tuples", "create", "register", "registry"]


class Miner(Protocol):
    """Called with L2-normalised or raw embeddings (B x D) and labels (B); never tracks gradients."""

    def __call__(self, embeddings: Tensor, labels: Tensor) -> Tuples:
        """The chosen tuples; empty tensors where nothing qualifies."""
        ...


@dataclass(frozen=True, kw_only=True)
class MinerCard(Card):
    """A miner's card; ``finds`` says which tuples it returns."""

    finds: Literal["pairs", "triplets"] = "triplets"


registry: Registry[MinerCard] = Registry("miner", MinerCard, package=__name__)
register = registry.register


def create(name: str, /, **options: Any) -> Miner:
    """The miner called ``name``, e.g. ``create("semihard")``."""
    miner: Miner = registry.create(name, **options)
    return miner
