"""Batch samplers, one file each; memory bank, cross-batch memory and mixup.

Every sampler is a class: ``lf.samplers.MPerClass(labels, batch_size=32, samples_per_class=4, seed=0)``.
Experiment files name samplers; :func:`create` makes one by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from levelfield.core.lazy import lazy_exports
from levelfield.core.registry import Registry
from levelfield.samplers._sampler import BatchSampler, SamplerCard

if TYPE_CHECKING:
    from levelfield.samplers.balanced import Balanced
    from levelfield.samplers.class_balanced import MPerClass
    from levelfield.samplers.cross_batch import CrossBatchMemory
    from levelfield.samplers.ddm import DistanceDistributionMatching
    from levelfield.samplers.frd import FrechetMatching
    from levelfield.samplers.gc import GreedyCoreset
    from levelfield.samplers.given import GivenPairs, GivenTriplets
    from levelfield.samplers.hierarchical import Hierarchical
    from levelfield.samplers.htl import AnchorNeighbor
    from levelfield.samplers.memory_bank import MemoryBank
    from levelfield.samplers.neighbor_lists import NeighborLists
    from levelfield.samplers.random import Random
    from levelfield.samplers.spc import SamplesPerClass
    from levelfield.samplers.spc_r import RandomWithPositive
    from levelfield.samplers.weighted import Weighted

__all__ = [
    "AnchorNeighbor",
    "Balanced",
    "BatchSampler",
    "CrossBatchMemory",
    "DistanceDistributionMatching",
    "FrechetMatching",
    "GivenPairs",
    "GivenTriplets",
    "GreedyCoreset",
    "Hierarchical",
    "MPerClass",
    "MemoryBank",
    "NeighborLists",
    "Random",
    "RandomWithPositive",
    "SamplerCard",
    "SamplesPerClass",
    "Weighted",
    "create",
    "register",
    "registry",
]

registry = Registry("batch sampler", SamplerCard, package=__name__)
register = registry.register

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.samplers.balanced": ("Balanced",),
        "levelfield.samplers.class_balanced": ("MPerClass",),
        "levelfield.samplers.cross_batch": ("CrossBatchMemory",),
        "levelfield.samplers.ddm": ("DistanceDistributionMatching",),
        "levelfield.samplers.frd": ("FrechetMatching",),
        "levelfield.samplers.gc": ("GreedyCoreset",),
        "levelfield.samplers.given": ("GivenPairs", "GivenTriplets"),
        "levelfield.samplers.hierarchical": ("Hierarchical",),
        "levelfield.samplers.htl": ("AnchorNeighbor",),
        "levelfield.samplers.memory_bank": ("MemoryBank",),
        "levelfield.samplers.neighbor_lists": ("NeighborLists",),
        "levelfield.samplers.random": ("Random",),
        "levelfield.samplers.spc": ("SamplesPerClass",),
        "levelfield.samplers.spc_r": ("RandomWithPositive",),
        "levelfield.samplers.weighted": ("Weighted",),
    },
)


def create(
    name: str, /, labels: npt.ArrayLike, *, batch_size: int, seed: int, **options: Any
) -> BatchSampler:
    """Make the batch sampler called ``name`` for training samples with these labels (n).

    Example:
        >>> sampler = create("class_balanced", [0, 0, 1, 1], batch_size=4, seed=0, samples_per_class=2)
        >>> [sorted(rows.tolist()) for rows in sampler.epoch(0, iterations=2)]
        [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    sampler: BatchSampler = registry.create(name, labels, batch_size=batch_size, seed=seed, **options)
    return sampler
