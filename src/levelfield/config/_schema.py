"""Schema of the experiment file: the protocol, which is held equal, and the methods to compare.

Sections that name a plug-in (``dataset``, ``split``, ``trunk``, ``transform``) accept further keys as
options of the plug-in. These are checked against its signature when the experiment is resolved. A name
alone, such as ``trunk: conv4``, is short for ``trunk: {name: conv4}``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from levelfield.config._renamed import with_current_keys
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.options import MAX_INT64, Size

Scalar = float | int | bool | str
MAX_STEPS = 1_000_000_000  # upper bound of steps and epochs


class Section(BaseModel):
    """Section of the experiment file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Plugin(BaseModel):
    """Section that names a plug-in; undeclared keys are options of the plug-in."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """Options of the plug-in."""
        return dict(self.__pydantic_extra__ or {})


class DatasetSpec(Plugin):
    """Dataset. ``root`` is its local path; not part of a run's identity.

    ``allow_shared_images`` accepts images that are in both development and test. Reports state them.
    """

    root: Path | None = None
    allow_shared_images: bool = False

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        if not values.get("allow_shared_images"):
            values.pop("allow_shared_images", None)  # as in records from before this setting
        return values


class SplitSpec(Plugin):
    """Split of the classes into test, training and validation classes, per fold."""

    name: str = "class_disjoint"


class LoraSpec(Section):
    """LoRA: low-rank additions to the weights of some layers. Only the additions are trained.

    ``targets`` are the last parts of layer names, such as "qkv". Defaults to all linear layers. ``alpha``
    scales the additions: they are multiplied by alpha / rank.
    """

    rank: Size = 8
    alpha: float = Field(default=8.0, gt=0)
    targets: tuple[str, ...] = ()


class TrunkSpec(Plugin):
    """Trunk: the pretrained network before the head, and the part of it that is trained.

    ``mode``: "finetune" trains the whole trunk. "frozen" trains only the head, on features computed once.
    "tail" trains the trunk from the module ``from`` on, on activations computed once. "lora" trains low-rank
    additions (``lora``), "bitfit" the biases, "norm" the norm layers.
    """

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    weights: str = "none"
    mode: Literal["finetune", "frozen", "tail", "lora", "bitfit", "norm"] = "finetune"
    cut: str | None = Field(
        default=None,
        alias="from",
        coerce_numbers_to_str=True,  # the layers of a Sequential have numbers as names
        description="first module that is trained, in tail mode",
    )
    freeze_bn: bool | Literal["train", "statistics", "all"] = False
    views: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="augmented views per image in frozen and tail mode; 0 = center crop",
    )
    lora: LoraSpec | None = None

    @model_validator(mode="after")
    def _check_mode_settings(self) -> TrunkSpec:
        if self.mode == "tail" and not self.cut:
            raise ValueError(
                "tail mode needs `from`, the first module to train; `levelfield ls cuts` lists them"
            )
        if self.mode != "tail" and self.cut:
            raise ValueError(
                f"`from` belongs to mode tail, not to {self.mode}; set `from` to null, or the mode to tail"
            )
        if self.mode != "lora" and self.lora is not None:
            raise ValueError(
                f"`lora` belongs to mode lora, not to {self.mode}; remove it, or set the mode to lora"
            )
        return self

    @property
    def bn_mode(self) -> Literal["train", "statistics", "all"]:
        """Training mode of BatchNorm layers; ``freeze_bn: true`` means "statistics"."""
        if isinstance(self.freeze_bn, bool):
            return "statistics" if self.freeze_bn else "train"
        return self.freeze_bn


class HeadSpec(Section):
    """Head: pooling, projection and L2 norm.

    ``normalize`` passes embeddings of unit length to the loss. Defaults to the setting on the card of each
    method's loss (``embedding``). Evaluation always uses the cosine. ``init`` is the initialization of the
    projection: random, or fitted to the features of the untrained trunk on the fold's training images.
    """

    size: Size = 128
    kind: Literal["linear", "mlp", "none"] = "linear"
    pooling: Literal["avg", "max", "avg+max", "gem"] = "avg"
    normalize: bool | None = None
    init: Literal["random", "pca", "whitening", "orthogonal"] = "random"


class TransformSpec(Plugin):
    """Transform: crop and augmentation of the images."""

    name: str = "none"


class BatchSpec(Section):
    """Batches; classification losses can have a different number of samples per class.

    If a fold has too few classes to fill a batch, ``adapt`` raises the number of samples per class and
    prints a note. Without ``adapt`` this is an error.
    """

    size: Size = 32
    samples_per_class: Size = 4
    samples_per_class_classification: Size = 1
    adapt: bool = False


class OptimizerSpec(Section):
    """Optimizer of trunk and head. Parameters of the loss have their own learning rate, per method.

    ``head_lr`` is the learning rate of the head. Defaults to ``lr``. Classification losses can have
    different learning rates from embedding losses.
    """

    name: Literal["rmsprop", "adam", "adamw", "sgd"] = "rmsprop"
    lr: float = Field(default=1e-6, gt=0)
    head_lr: float | None = Field(default=None, gt=0)
    lr_classification: float | None = Field(default=None, gt=0)
    head_lr_classification: float | None = Field(default=None, gt=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    loss_weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)

    def for_loss_kind(self, kind: str) -> OptimizerSpec:
        """Return the optimizer for losses of ``kind`` "embedding" or "classification".

        Example:
            >>> OptimizerSpec(lr=1e-4, lr_classification=1e-3).for_loss_kind("classification").lr
            0.001
        """
        lr, head_lr = self.lr, self.head_lr
        if kind == "classification":
            lr = self.lr_classification or lr
            head_lr = self.head_lr_classification or head_lr
        return self.model_copy(
            update={"lr": lr, "head_lr": head_lr, "lr_classification": None, "head_lr_classification": None}
        )


class ScheduleSpec(Section):
    """Learning rate schedule, per epoch."""

    name: Literal["constant", "step", "cosine"] = "constant"
    step_size: int = Field(default=10, ge=1, le=MAX_STEPS)
    gamma: float = Field(default=0.1, gt=0)


class TrainingSpec(Section):
    """Length of a run, evaluation and early stopping.

    A run is evaluated on the validation classes before training (epoch 0) and every ``evaluate_every``
    epochs. It stops when the best epoch is more than ``patience`` epochs ago. With ``chunk`` the network
    processes that many images at a time while the loss uses the whole batch: large batches in little memory.
    """

    iterations_per_epoch: int | None = Field(default=100, ge=1, le=MAX_STEPS)
    max_epochs: int = Field(default=1000, ge=0, le=MAX_STEPS)
    evaluate_every: int = Field(default=2, ge=1, le=MAX_STEPS)
    patience: int | None = Field(default=9, ge=0, le=MAX_STEPS)
    metric: str = "map_at_r"
    eval_batch_size: Size = 256
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    accumulate: Size = 1
    clip_norm: float | None = Field(default=None, gt=0)
    compile: bool = False
    chunk: Size | None = None


class MethodSpec(Section):
    """Method: a registered name, or a new combination of parts.

    ``set`` fixes hyperparameters, which are then not searched. ``space`` replaces search ranges.
    """

    name: str
    loss: str | None = None
    miner: str | None = None
    sampler: str | None = None
    set: dict[str, Scalar] = Field(default_factory=dict)
    space: dict[str, list[Scalar]] = Field(default_factory=dict)
    samples_per_class: Size | None = None

    @field_validator("set", "space", mode="before")
    @classmethod
    def _accept_old_keys(cls, value: Any, info: ValidationInfo) -> Any:
        return with_current_keys(value, sampler=info.data.get("sampler"))

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        """Check that the name can be a file name and is not the name of a baseline."""
        if value in BASELINES:
            raise ValueError(f"{value} is the name of the untrained baseline; choose another method name")
        if not re.fullmatch(r"\w[\w .:+=,()-]{0,99}", value):
            raise ValueError(
                f"{value[:40]!r} is not a valid method name; start with a letter or digit, then use letters, "
                "digits, spaces and _ - . : + = , ( ), 100 characters at most"
            )
        return value


BASELINES = ("untrained", "pretrained")  # names of the row of the network before training
RANDOM_TRIALS = 5  # initial trials of gp and tpe


class SearchSpec(Section):
    """Hyperparameter search, with the same budget for every method.

    ``first``: "defaults" uses the values recommended by the methods' papers for the first trial; "published"
    (or a source, such as "published:deep-dive") uses a published optimum for the dataset. ``ranges``: "own"
    searches the ranges of the losses' cards; "published" searches the ranges of the reality check's trials
    instead, for the methods in it. A method's own ``space`` has priority over both. ``prune`` skips the
    remaining folds of a trial that can no longer be the best; reports show this. ``max_epochs`` makes the
    runs of trials shorter than those of the confirmation; None gives both the same length. ``storage``
    is the URL of a database that several machines share for the search; not part of an identity or a record.
    """

    trials: int = Field(default=50, ge=1, le=1_000_000)
    repeats: int = Field(
        default=1, ge=1, le=100, description="number of whole searches, each with fresh seeds"
    )
    sampler: Literal["gp", "tpe", "random", "grid"] = "gp"
    first: str = Field(default="sampler", pattern=r"^(sampler|defaults|published(:[a-z-]+)?)$")
    ranges: Literal["own", "published"] = "own"
    parallel: int = Field(default=1, ge=1, le=1024, description="number of trials that run at the same time")
    prune: bool = False
    max_epochs: int | None = Field(
        default=None, ge=1, le=MAX_STEPS, description="length of a trial's runs; null = training.max_epochs"
    )
    storage: str | None = None
    keep_weights: bool = Field(
        default=False, description="keep the weights of search runs; nothing reads them after their trial"
    )

    @property
    def random_trials(self) -> int:
        """Number of trials that are drawn at random."""
        if self.sampler in ("gp", "tpe"):
            return min(self.trials, RANDOM_TRIALS)
        return self.trials if self.sampler == "random" else 0


class ConfirmSpec(Section):
    """Confirmation: reruns of the selection with fresh seeds, scored on the test set.

    ``gallery`` is the number of test queries that are kept with thumbnails of their neighbors; 0 keeps none.
    ``rerank`` names re-ranking methods to evaluate on the first model of each method.
    """

    reruns: int = Field(default=10, ge=1, le=10_000, description="trainings of the selection of each search")
    rerank: tuple[str, ...] = ()
    gallery: int = Field(default=24, ge=0, le=1000, description="queries shown with their neighbors")


class EngineSpec(Plugin):
    """Engine that executes runs; not part of a run's identity."""

    name: str = "local"
    workers: Annotated[int, Field(ge=0, le=1024)] | Literal["auto"] = Field(
        default=1,
        description="runs at the same time; 0 = in this process, auto = by the number of cores or GPUs",
    )
    threads: int = Field(default=1, ge=1, le=1024, description="CPU threads per run")
    device: str = Field(default="auto", description="cuda, mps or cpu; auto = the first that is available")
    loaders: Annotated[int, Field(ge=0, le=256)] | Literal["auto"] = Field(
        default="auto", description="processes that load images for each run; 0 = none"
    )
    recompute: bool = Field(
        default=False, description="recompute activations in the backward pass instead of storing them"
    )


class TrackSpec(Plugin):
    """Tracker that shows runs live, such as TensorBoard; not part of any identity."""


class Experiment(Section):
    """Experiment: the protocol, which is held equal, and the methods to compare.

    ``hyperparameters``: "search" searches them. "defaults" takes them from the losses' papers. "published"
    takes published optima on the same dataset, from the reality check or from another source, such as
    "published:deep-dive".
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)
    preset: str | None = None
    seed: int = Field(default=0, ge=-MAX_INT64, le=MAX_INT64)
    plugins: tuple[Path, ...] = ()
    dataset: DatasetSpec
    split: SplitSpec = SplitSpec()
    trunk: TrunkSpec
    head: HeadSpec = HeadSpec()
    transform: TransformSpec = TransformSpec()
    batch: BatchSpec = BatchSpec()
    optimizer: OptimizerSpec = OptimizerSpec()
    schedule: ScheduleSpec = ScheduleSpec()
    training: TrainingSpec = TrainingSpec()
    metrics: tuple[str, ...] = ("precision_at_1", "r_precision", "map_at_r")
    methods: tuple[MethodSpec, ...] = Field(min_length=1)
    hyperparameters: str = Field(default="search", pattern=r"^(search|defaults|published(:[a-z-]+)?)$")
    search: SearchSpec = SearchSpec()
    confirm: ConfirmSpec = ConfirmSpec()
    engine: EngineSpec = EngineSpec()
    track: tuple[TrackSpec, ...] = ()

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("name at least one metric, such as map_at_r, or leave the key out")
        return value

    @field_validator("track")
    @classmethod
    def _check_trackers(cls, value: tuple[TrackSpec, ...]) -> tuple[TrackSpec, ...]:
        names = [spec.name for spec in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"tracker {twice[0]} is listed twice; remove one of them")
        return value

    @field_validator("methods", "track", mode="before")
    @classmethod
    def _expand_names(cls, value: Any) -> Any:
        """Expand the short form ``methods: [triplet]`` to ``methods: [{name: triplet}]``."""
        if isinstance(value, list | tuple):
            return [{"name": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("methods")
    @classmethod
    def _check_method_names(cls, value: tuple[MethodSpec, ...]) -> tuple[MethodSpec, ...]:
        names = [method.name for method in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"method {twice[0]} is listed twice; give one of them another name and `loss:`")
        return value

    @classmethod
    def load(cls, path: str | Path, overrides: tuple[str, ...] = ()) -> Experiment:
        """Load an experiment file, merge it with its preset, then apply ``a.b=value`` overrides."""
        from levelfield.config import _load

        return _load.load(Path(path), overrides)

    @classmethod
    def build(cls, **values: Any) -> Experiment:
        """Return an experiment from Python values, with the schema and presets of experiment files."""
        from levelfield.config import _load

        return _load.build(values, origin="experiment")

    def with_trackers(self, *names: str) -> Experiment:
        """Return the experiment with these trackers added; existing trackers keep their options."""
        known = {spec.name for spec in self.track}
        more = tuple(TrackSpec(name=name) for name in dict.fromkeys(names) if name not in known)
        return self.model_copy(update={"track": (*self.track, *more)})

    def method(self, name: str) -> MethodSpec:
        """Return the method called ``name``."""
        for method in self.methods:
            if method.name == name:
                return method
        known = [method.name for method in self.methods]
        raise UsageError(f'experiment {self.name} has no method "{name}"{did_you_mean(name, known)}')
