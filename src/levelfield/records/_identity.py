"""Identities of runs, searches and features.

A digest covers everything that the result depends on and nothing else: no path, host, time or number of
workers. ``IDENTITY_RULES`` lists which setting is part of which digest, and why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from levelfield.config import (
    BatchSpec,
    HeadSpec,
    LoraSpec,
    OptimizerSpec,
    Scalar,
    ScheduleSpec,
    Section,
    TrainingSpec,
    with_current_keys,
    with_recorded_keys,
)
from levelfield.core.space import Choice, Dimension, Float, Int, Space
from levelfield.records._digest import digest

SCHEMA_VERSION = 2
# Algorithm of runs on images. 2: each batch has its own random stream, layers are channels-last.
IMAGE_ALGORITHM = 2


Hyperparameters = Annotated[dict[str, Scalar], BeforeValidator(with_current_keys)]
"""Values by flat name; old records are read with the current names."""


class PluginIdentity(Section):
    """Plug-in with its options; ``source`` is the digest of its code if it is not part of this package."""

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    source: str | None = None


class DataIdentity(PluginIdentity):
    """Dataset by the fingerprint of its content, and its split."""

    fingerprint: str
    split: PluginIdentity


class TrunkIdentity(PluginIdentity):
    """Trunk; ``weights`` is a public name, or the digest of a local file.

    ``cut`` is set in tail mode only, ``lora`` in lora mode only.
    """

    weights: str
    mode: str
    bn_mode: str
    views: int
    cut: str | None = None
    lora: LoraSpec | None = None


class Recipe(Section):
    """Method without its name; two methods with one recipe share their runs.

    ``sources`` holds the code digest of each part that is not in this package: "loss", "miner", "sampler" and
    "regularizer.NAME".
    """

    loss: str
    miner: str | None
    sampler: str
    samples_per_class: int
    sources: dict[str, str] = Field(default_factory=dict)


class RunSpec(Section):
    """One training of one method on one fold with one seed, fully resolved.

    ``algorithm`` increases when a change of levelfield changes what such a run computes. The value 1 is left
    out of records and digests.
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
    hyperparameters: Hyperparameters
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
        """Digest of the run."""
        return digest(with_recorded_keys(self.model_dump(mode="json")))


class NetworkIdentity(Section):
    """Identity of the baseline: everything that the scores of a network before training depend on.

    ``start`` is "epoch 0" if it is scored as a run is before its first step, with the fitted head of each
    fold. With "features", the features of the trunk are scored.
    """

    data: DataIdentity
    trunk: TrunkIdentity
    head: HeadSpec
    transform: PluginIdentity
    seed: int
    start: Literal["features", "epoch 0"] = "features"

    @model_serializer(mode="wrap")
    def _without_first_start(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if values.get("start") == "features":  # identities of before keep their digest
            del values["start"]
        return values


class RangeRecord(Section):
    """Dimension of a search space as a record: bounds, or options."""

    kind: Literal["float", "int", "choice"]
    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    step: float | int | None = None
    options: tuple[Scalar, ...] = ()

    @model_validator(mode="after")
    def _is_a_dimension(self) -> RangeRecord:
        self.to_dimension()  # a record may come from a stranger: raise here, where the error names the file
        return self

    @classmethod
    def from_dimension(cls, dimension: Dimension) -> RangeRecord:
        """Return the record of a dimension.

        Example:
            >>> stepped = RangeRecord.from_dimension(Float(0.0, 1.0, step=0.5))
            >>> stepped == RangeRecord.from_dimension(Float(0.0, 1.0))
            False
        """
        match dimension:
            case Choice(options=options):
                return cls(kind="choice", options=options)
            case Float(low=low, high=high, log=log, step=step):
                return cls(kind="float", low=float(low), high=float(high), log=log, step=step)
            case Int(low=low, high=high, log=log, step=step):
                return cls(kind="int", low=low, high=high, log=log, step=step)

    def to_dimension(self) -> Dimension:
        """Return the recorded dimension.

        Example:
            >>> RangeRecord.from_dimension(Int(1, 10, log=True)).to_dimension()
            Int(low=1, high=10, log=True, step=1)
        """
        if self.kind == "choice":
            return Choice(*self.options)
        if self.low is None or self.high is None:
            raise ValueError("a range needs low and high")
        if self.kind == "int":
            return Int(int(self.low), int(self.high), log=self.log, step=int(self.step or 1))
        return Float(float(self.low), float(self.high), log=self.log, step=self.step)


class Search(Section):
    """Everything that the trials of a search depend on. The number of trials is not part of it.

    Attributes:
        run: Spec that all runs share; fold and seed are those of the experiment.
        space: Search space.
        sampler: Sampler that proposes hyperparameters.
        first: ``search.first`` of the experiment.
        first_point: Hyperparameters of the first trial that ``first`` resolves to; None if it is sampled.
        parallel: Number of trials that run at once.
        prune: Whether trials that cannot win are ended early.
        max_epochs: Length of the runs of trials if it differs from that of ``run``. The value None is left
            out of records and digests.
        method_source: Digest of the file that defines the method, if it is not part of this package.
        repeat: Number of this search among the method's searches, from 0; each has fresh seeds.
    """

    run: RunSpec
    space: Annotated[dict[str, RangeRecord], BeforeValidator(with_current_keys)]
    sampler: str
    first: str
    first_point: Hyperparameters | None = None
    parallel: int
    prune: bool
    method_source: str | None = None
    repeat: int = 0
    max_epochs: int | None = None

    @model_serializer(mode="wrap")
    def _without_default_length(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if values.get("max_epochs") is None:
            values.pop("max_epochs", None)
        return values

    @property
    def search_id(self) -> str:
        """Digest of the search."""
        return digest(with_recorded_keys(self.model_dump(mode="json")))

    def dimensions(self) -> dict[str, Dimension]:
        """Return the search space by hyperparameter."""
        return {name: found.to_dimension() for name, found in self.space.items()}


def space_record(space: Space | Mapping[str, Dimension]) -> dict[str, RangeRecord]:
    """Return a search space as records; different spaces give different digests."""
    return {name: RangeRecord.from_dimension(dimension) for name, dimension in space.items()}


class FeatureIdentity(Section):
    """Everything that the features of a frozen trunk depend on.

    Attributes:
        dataset: Name, options and source of the dataset.
        fingerprint: Fingerprint of the dataset.
        content: Digest of the content of exactly these images; empty if the dataset does not tell it, as a
            dataset in memory, whose fingerprint covers all pixels.
        rows: Digest of the rows and their order; see :func:`rows_digest`.
        trunk: Network with its options.
        inputs: Pixel format of the network: mean, deviation, scale, order of channels.
        weights: Digest of the tensors of trunk and pooling, and of the printed layers.
        pooling: Pooling of the feature maps; empty if activations at a cut are stored.
        cut: Module before which the trunk is cut; empty if the trunk is not cut.
        dtype: Data type of the stored numbers.
        transform: Transform of the images.
        transform_texts: ``repr`` of the transform: for the plain view, and for the augmented views if any.
        views: Number of augmented views of each image besides the plain view.
        seed: Seed of the augmentation; 0 without views.
        computed_with: Library versions and kind of processor, which affect the last bits of features.
        algorithm: Increases when a change of levelfield changes features.
    """

    dataset: PluginIdentity
    fingerprint: str
    content: str = ""
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
    """Return the digest of features, which is the name of their directory.

    Example:
        >>> plain = PluginIdentity(name="none")
        >>> same = {"dataset": plain, "fingerprint": "f", "trunk": plain, "weights": "w", "pooling": "avg"}
        >>> one, other = (FeatureIdentity(rows=rows, transform=plain, **same) for rows in "ab")
        >>> len(feature_id(one)), feature_id(one) == feature_id(other)
        (16, False)
    """
    values = identity.model_dump(mode="json")
    if not identity.content:
        del values["content"]
    return digest(with_recorded_keys(values))


def rows_digest(rows: NDArray[np.int64]) -> str:
    """Return the digest of rows (n,) of a dataset; it depends on their order.

    Example:
        >>> rows_digest(np.array([0, 1])) == rows_digest(np.arange(2)), len(rows_digest(np.arange(2)))
        (True, 16)
    """
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").tobytes()).hexdigest()[:16]
