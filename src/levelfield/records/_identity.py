"""What a run is: its resolved spec, whose hash names the run's folder.

No path, host or time is part of it: the same run has the same name on every machine.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from levelfield.config import (
    BatchSpec,
    HeadSpec,
    OptimizerSpec,
    Plugin,
    Scalar,
    ScheduleSpec,
    Section,
    TrainingSpec,
)
from levelfield.records._digest import digest

SCHEMA_VERSION = 1


class DataIdentity(Section):
    """A dataset by content, and how it is split."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    fingerprint: str
    split: Plugin


class TrunkIdentity(Section):
    """A trunk; ``weights`` is a public name, or the hash of a local file."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    weights: str
    mode: str
    bn_mode: str
    views: int


class Recipe(Section):
    """The parts of a method, without its name: two names for one recipe share their runs."""

    loss: str
    miner: str | None
    sampler: str
    samples_per_class: int
    plugins: dict[str, str] = Field(default_factory=dict)


class RunSpec(Section):
    """One training of one method on one fold with one seed, fully resolved."""

    schema_version: int = SCHEMA_VERSION
    data: DataIdentity
    fold: int
    trunk: TrunkIdentity
    head: HeadSpec
    transform: Plugin
    batch: BatchSpec
    optimizer: OptimizerSpec
    schedule: ScheduleSpec
    training: TrainingSpec
    recipe: Recipe
    hyperparameters: dict[str, Scalar]
    seed: int

    @property
    def run_id(self) -> str:
        """The hash that names the run."""
        return digest(self.model_dump(mode="json"))
