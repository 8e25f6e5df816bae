"""Identity: what a run, a search and a set of features are called.

A name is the hash of everything that the thing depends on, and of nothing else: no path, host, time or number
of workers. ``IDENTITY`` (in ``_scope``) says which setting belongs to which name, and why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from levelfield.config import (
    BatchSpec,
    HeadSpec,
    LoraSpec,
    OptimizerSpec,
    Scalar,
    ScheduleSpec,
    Section,
    TrainingSpec,
)
from levelfield.records._digest import digest
from levelfield.space import Choice, Dimension, Float, Int, Space

SCHEMA_VERSION = 2
# Of runs that are fed images. 2: each batch has a random stream of its own, layers are channels-last.
IMAGE_ALGORITHM = 2


class PluginIdentity(Section):
    """A plug-in with its options; ``source`` is the hash of its code if it is not part of this package."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    source: str | None = None


class DataIdentity(PluginIdentity):
    """A dataset by content, and how it is split."""

    fingerprint: str
    split: PluginIdentity


class TrunkIdentity(PluginIdentity):
    """A trunk; ``weights`` is a public name, or the hash of a local file.

    ``cut`` and ``lora`` are there in the modes that they belong to.
    """

    weights: str
    mode: str
    bn_mode: str
    views: int
    cut: str | None = None
    lora: LoraSpec | None = None


class Recipe(Section):
    """The parts of a method, without its name: two names for one recipe share their runs.

    ``sources`` holds the hash of each part that is not part of this package: "loss", "miner", "sampler", and
    "regulariser.NAME".
    """

    loss: str
    miner: str | None
    sampler: str
    samples_per_class: int
    sources: dict[str, str] = Field(default_factory=dict)


class RunSpec(Section):
    """One training of one method on one fold with one seed, fully resolved.

    ``algorithm`` counts up when a change of levelfield itself changes what such a run computes. The first is
    left out of records, and so of names.
    """

    schema_version: int = SCHEMA_VERSION
    data: DataIdentity
    fold: int
    trunk: TrunkIdentity
    head: HeadSpec
    transform: PluginIdentity
    batch: BatchSpec
    optimizer: OptimizerSpec
    schedule: ScheduleSpec
    training: TrainingSpec
    metric: PluginIdentity
    recipe: Recipe
    hyperparameters: dict[str, Scalar]
    seed: int
    algorithm: int = 1

    @model_serializer(mode="wrap")
    def _without_first_algorithm(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if values.get("algorithm") == 1:
            del values["algorithm"]
        return values

    @property
    def run_id(self) -> str:
        """The hash that names the run."""
        return digest(self.model_dump(mode="json"))


class NetworkIdentity(Section):
    """What the scores of a network before its training depend on: the baseline has nothing else."""

    data: DataIdentity
    trunk: TrunkIdentity
    head: HeadSpec
    transform: PluginIdentity
    seed: int


class Range(Section):
    """One dimension of a search space as data: bounds, or options."""

    kind: Literal["float", "int", "choice"]
    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    step: float | int | None = None
    options: tuple[Scalar, ...] = ()

    @classmethod
    def of(cls, dimension: Dimension) -> Range:
        """The record of a dimension.

        Example:
            >>> Range.of(Float(0.0, 1.0, step=0.5)) == Range.of(Float(0.0, 1.0))
            False
        """
        match dimension:
            case Choice(options=options):
                return cls(kind="choice", options=options)
            case Float(low=low, high=high, log=log, step=step):
                return cls(kind="float", low=float(low), high=float(high), log=log, step=step)
            case Int(low=low, high=high, log=log, step=step):
                return cls(kind="int", low=low, high=high, log=log, step=step)

    def dimension(self) -> Dimension:
        """The dimension that was recorded.

        Example:
            >>> Range.of(Int(1, 10, log=True)).dimension()
            Int(low=1, high=10, log=True, step=1)
        """
        if self.kind == "choice":
            return Choice(*self.options)
        assert self.low is not None and self.high is not None
        if self.kind == "int":
            return Int(int(self.low), int(self.high), log=self.log, step=int(self.step or 1))
        return Float(float(self.low), float(self.high), log=self.log, step=self.step)


class Search(Section):
    """Everything that the trials of a search depend on, but not how many there are: 30 can follow 50.

    Attributes:
        run: The spec that all runs share; fold and seed are those of the experiment.
        space: What is searched.
        sampler: What proposes hyperparameters.
        first: What the experiment says of the first trial, and
        first_point: what that comes to.
        parallel: How many trials are in flight at once.
        prune: Whether hopeless trials are ended early.
        method_source: The hash of the file that defines the method, if it is not part of this package.
        repeat: Which of the method's searches it is; each has fresh seeds.
    """

    run: RunSpec
    space: dict[str, Range]
    sampler: str
    first: str
    first_point: dict[str, Scalar] | None = None
    parallel: int
    prune: bool
    method_source: str | None = None
    repeat: int = 0

    @property
    def search_id(self) -> str:
        """The hash that names the search."""
        return digest(self.model_dump(mode="json"))

    def dimensions(self) -> dict[str, Dimension]:
        """What was searched, hyperparameter by hyperparameter."""
        return {name: found.dimension() for name, found in self.space.items()}


def space_record(space: Space | Mapping[str, Dimension]) -> dict[str, Range]:
    """A search space as data, so that two different ones never have one name."""
    return {name: Range.of(dimension) for name, dimension in space.items()}


class FeatureIdentity(Section):
    """Everything that features of a frozen trunk depend on.

    Attributes:
        dataset: Its name, options and source, and
        fingerprint: the hash of its content.
        rows: Which of its images, in which order; see :func:`rows_digest`.
        trunk: The network, with its options.
        inputs: How the network wants its pixels: mean, deviation, scale, order of channels.
        weights: The hash of the tensors of trunk and pooling, and of the printed layers.
        pooling: How maps become vectors; empty if activations at a cut are kept.
        cut: The module before which the trunk is cut; empty if it is whole.
        dtype: Of the numbers that are kept.
        transform: What is done to images before they enter the network.
        transform_texts: How the transform that is made from it prints itself: for the plain view, and for
            the augmented ones if there are any.
        views: How many augmented views each image has besides the plain one.
        seed: Of the augmentation; 0 without views.
        computed_with: Library versions and kind of processor, which the last bits of features depend on.
        algorithm: Counts up when a change of levelfield itself changes features.
    """

    dataset: PluginIdentity
    fingerprint: str
    rows: str
    trunk: PluginIdentity
    inputs: str = ""
    weights: str
    pooling: str
    cut: str = ""
    dtype: str = "float32"
    transform: PluginIdentity
    transform_texts: tuple[str, ...] = ()
    views: int = 0
    seed: int = 0
    computed_with: str = ""
    algorithm: int = 2


def feature_id(identity: FeatureIdentity) -> str:
    """The name of the features' folder.

    Example:
        >>> plain = PluginIdentity(name="none")
        >>> same = {"dataset": plain, "fingerprint": "f", "trunk": plain, "weights": "w", "pooling": "avg"}
        >>> one, other = (FeatureIdentity(rows=rows, transform=plain, **same) for rows in "ab")
        >>> len(feature_id(one)), feature_id(one) == feature_id(other)
        (16, False)
    """
    return digest(identity.model_dump(mode="json"))


def rows_digest(rows: NDArray[np.int64]) -> str:
    """A short name for which rows (n,) of a dataset are meant; their order counts.

    Example:
        >>> rows_digest(np.array([0, 1])) == rows_digest(np.arange(2)), len(rows_digest(np.arange(2)))
        (True, 16)
    """
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").tobytes()).hexdigest()[:16]
