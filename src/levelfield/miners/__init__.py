"""Miners, one file each. A miner chooses the pairs or triplets of a batch for the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from torch import Tensor

from levelfield.core.geometry import MinedTuples, Pairs, Triplets, keep_batch_anchors, pairs_of_anchors
from levelfield.core.lazy import lazy_exports
from levelfield.core.registry import Card, Registry
from levelfield.miners._randomized import RandomizedMiner, sample_columns

if TYPE_CHECKING:
    from levelfield.miners.all import All
    from levelfield.miners.angular import Angular
    from levelfield.miners.distance_weighted import DistanceWeighted
    from levelfield.miners.easy_positive import EasyPositive
    from levelfield.miners.hard import Hard
    from levelfield.miners.multi_similarity import MultiSimilarity
    from levelfield.miners.pair_margin import PairMargin
    from levelfield.miners.random import Random
    from levelfield.miners.rho_switch import RhoSwitch
    from levelfield.miners.semihard import Semihard
    from levelfield.miners.softhard import Softhard
    from levelfield.miners.triplet_margin import TripletMargin

__all__ = [
    "All",
    "Angular",
    "DistanceWeighted",
    "EasyPositive",
    "Hard",
    "MinedTuples",
    "Miner",
    "MinerCard",
    "MultiSimilarity",
    "PairMargin",
    "Pairs",
    "Random",
    "RandomizedMiner",
    "RhoSwitch",
    "Semihard",
    "Softhard",
    "TripletMargin",
    "Triplets",
    "create",
    "keep_batch_anchors",
    "pairs_of_anchors",
    "register",
    "registry",
    "reseed",
    "sample_columns",
]


@runtime_checkable
class Miner(Protocol):
    """Callable that chooses tuples from embeddings (B x D) and labels (B); it tracks no gradients.

    Miners scale embeddings to unit length first, like the losses. Miners that are also defined on raw
    embeddings have an option ``normalize``.

    A randomized miner has its own generator and a method ``reseed(seed: int)``. The training loop calls
    :func:`reseed` before every epoch, so that a resumed run draws the same tuples as an uninterrupted run.
    """

    def __call__(self, embeddings: Tensor, labels: Tensor) -> MinedTuples:
        """Return the chosen tuples; their tensors are empty if there are none."""
        ...


@dataclass(frozen=True, kw_only=True)
class MinerCard(Card):
    """Card of a miner.

    Attributes:
        finds: Kind of tuples that the miner returns.
    """

    finds: Literal["pairs", "triplets"] = "triplets"


registry = Registry("miner", MinerCard, package=__name__)
register = registry.register


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.miners.all": ("All",),
        "levelfield.miners.angular": ("Angular",),
        "levelfield.miners.distance_weighted": ("DistanceWeighted",),
        "levelfield.miners.easy_positive": ("EasyPositive",),
        "levelfield.miners.hard": ("Hard",),
        "levelfield.miners.multi_similarity": ("MultiSimilarity",),
        "levelfield.miners.pair_margin": ("PairMargin",),
        "levelfield.miners.random": ("Random",),
        "levelfield.miners.rho_switch": ("RhoSwitch",),
        "levelfield.miners.semihard": ("Semihard",),
        "levelfield.miners.softhard": ("Softhard",),
        "levelfield.miners.triplet_margin": ("TripletMargin",),
    },
)


def create(name: str, /, **options: Any) -> Miner:
    """Make the miner called ``name``, e.g. ``create("semihard")``."""
    miner: Miner = registry.create(name, **options)
    return miner


def reseed(miner: Miner, seed: int) -> None:
    """Reseed the random generator of ``miner``, if it has one."""
    start = getattr(miner, "reseed", None)
    if start is not None:
        start(seed)
