"""Miners choose the pairs or triplets of a batch that a loss works on; one file each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor

from levelfield.geometry import Pairs, Triplets, Tuples, pairs_of_anchors, with_anchors_in_batch
from levelfield.miners._draw import Drawing, draw
from levelfield.registry import Card, Registry

__all__ = [
    "Drawing",
    "Miner",
    "MinerCard",
    "Pairs",
    "Triplets",
    "Tuples",
    "create",
    "draw",
    "pairs_of_anchors",
    "register",
    "registry",
    "reseed",
    "with_anchors_in_batch",
]


@runtime_checkable
class Miner(Protocol):
    """Called with L2-normalised or raw embeddings (B x D) and labels (B); never tracks gradients.

    Miners scale embeddings to unit length first, as the losses do; where the definition makes sense without,
    there is an option ``normalize``. Nothing found is no error.

    A miner that draws at random owns a generator and has a method ``reseed(seed: int)``. A training loop
    calls :func:`reseed` before every epoch, so that a resumed run draws what an unbroken one draws.
    """

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


def reseed(miner: Miner, seed: int) -> None:
    """Start the random stream of ``miner`` anew, if it has one."""
    start = getattr(miner, "reseed", None)
    if start is not None:
        start(seed)
