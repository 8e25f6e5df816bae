"""Batch samplers say which training samples share a batch; one file each, and the memory bank."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from levelfield.batches._sampler import BatchSampler, SamplerCard
from levelfield.registry import Registry

__all__ = ["BatchSampler", "SamplerCard", "create", "register", "registry"]

registry: Registry[SamplerCard] = Registry("batch sampler", SamplerCard, package=__name__)
register = registry.register


def create(
    name: str, /, labels: npt.ArrayLike, *, batch_size: int, seed: int, **options: Any
) -> BatchSampler:
    """The batch sampler called ``name`` for training samples with these labels (n).

    Example:
        >>> sampler = create("class_balanced", [0, 0, 1, 1], batch_size=4, seed=0, samples_per_class=2)
        >>> [sorted(rows.tolist()) for rows in sampler.epoch(0, iterations=2)]
        [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    sampler: BatchSampler = registry.create(name, labels, batch_size=batch_size, seed=seed, **options)
    return sampler
