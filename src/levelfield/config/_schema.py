"""The experiment file: everything held equal (the protocol), and the methods to compare.

Sections that name a plug-in (``dataset``, ``split``, ``trunk``, ``transform``) keep further keys as that
plug-in's own options; they are checked against its signature when the experiment is resolved.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from levelfield.errors import UsageError
from levelfield.options import LARGEST, Size

Scalar = float | int | bool | str
MANY = 1_000_000_000  # steps or epochs that no run reaches


class Section(BaseModel):
    """A part of the experiment file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Plugin(BaseModel):
    """A named plug-in; keys beyond the declared ones are its options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """The plug-in's own options."""
        return dict(self.__pydantic_extra__ or {})


class DatasetSpec(Plugin):
    """Which images; ``root`` says where they lie and is no part of a run's identity."""

    root: Path | None = None


class SplitSpec(Plugin):
    """Which classes are test, and which train or validate in each fold."""

    name: str = "class_disjoint"


class LoraSpec(Section):
    """Low-rank additions to the weights of some layers, which alone are trained.

    ``targets`` are the last parts of layers' names, such as "qkv"; without them every linear layer is one.
    ``alpha`` is the size of the addition: it is multiplied by alpha / rank.
    """

    rank: Size = 8
    alpha: float = Field(default=8.0, gt=0)
    targets: tuple[str, ...] = ()


class TrunkSpec(Plugin):
    """The network before the head, and how much of it is trained.

    ``mode``: "finetune" trains all of it. "frozen" trains nothing, and the head learns from features computed
    once. "tail" trains from the module that ``from`` names to the end, on activations computed once. "lora"
    trains low-rank additions (``lora``), "bitfit" the biases, "norm" the norm layers.
    """

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    weights: str = "none"
    mode: Literal["finetune", "frozen", "tail", "lora", "bitfit", "norm"] = "finetune"
    cut: str | None = Field(
        default=None,
        alias="from",
        coerce_numbers_to_str=True,  # a row of layers has numbers for names
        description="in tail mode: the first module that is trained",
    )
    freeze_bn: bool | Literal["train", "statistics", "all"] = False
    views: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="augmented views per image in frozen and tail mode; 0 = centre crop",
    )
    lora: LoraSpec | None = None

    @model_validator(mode="after")
    def _settings_of_other_modes(self) -> TrunkSpec:
        if self.mode == "tail" and not self.cut:
            raise ValueError(
                "tail mode needs `from`, the first module to train; `levelfield ls cuts` lists them"
            )
        if self.mode != "tail" and self.cut:
            raise ValueError(
                f"`from` belongs to mode tail, not to {self.mode}; set it to null, or the mode to tail"
            )
        if self.mode != "lora" and self.lora is not None:
            raise ValueError(
                f"`lora` belongs to mode lora, not to {self.mode}; leave it out, or set the mode to lora"
            )
        return self

    @property
    def bn_mode(self) -> Literal["train", "statistics", "all"]:
        """What BatchNorm layers do in training; ``freeze_bn: true`` freezes their statistics."""
        if isinstance(self.freeze_bn, bool):
            return "statistics" if self.freeze_bn else "train"
        return self.freeze_bn


class HeadSpec(Section):
    """Pooling, projection and L2 norm.

    ``normalize`` says whether the loss sees embeddings of unit length; left out, each method's loss decides
    (its card's ``embedding``). Evaluation is by cosine in any case.
    ``init`` says where the projection starts: at random, or at directions fitted to the features that the
    untrained trunk gives for the fold's training images.
    """

    size: Size = 128
    kind: Literal["linear", "mlp", "none"] = "linear"
    pooling: Literal["avg", "max", "avg+max", "gem"] = "avg"
    normalize: bool | None = None
    init: Literal["random", "pca", "whitening", "orthogonal"] = "random"


class TransformSpec(Plugin):
    """How images are cropped and augmented."""

    name: str = "none"


class BatchSpec(Section):
    """Batches of ``size``; classification losses may want another number of samples per class.

    With ``adapt``, classes of which there are too few to fill a batch give more samples each, and a note says
    so; without it that is an error.
    """

    size: Size = 32
    samples_per_class: Size = 4
    samples_per_class_classification: Size = 1
    adapt: bool = False


class OptimizerSpec(Section):
    """The optimiser of trunk and head. Loss parameters have a rate of their own, per method.

    ``head_lr`` is the head's rate where it differs from that of the trunk. Classification losses may want
    other rates than those that compare the samples of a batch.
    """

    name: Literal["rmsprop", "adam", "adamw", "sgd"] = "rmsprop"
    lr: float = Field(default=1e-6, gt=0)
    head_lr: float | None = Field(default=None, gt=0)
    lr_classification: float | None = Field(default=None, gt=0)
    head_lr_classification: float | None = Field(default=None, gt=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    loss_weight_decay: float = Field(default=0.0, ge=0)
    momentum: float = Field(default=0.0, ge=0, lt=1)

    def for_losses(self, kind: str) -> OptimizerSpec:
        """The optimiser of losses of ``kind`` "embedding" or "classification", without the other's rates.

        Example:
            >>> OptimizerSpec(lr=1e-4, lr_classification=1e-3).for_losses("classification").lr
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
    """How the learning rates change from epoch to epoch."""

    name: Literal["constant", "step", "cosine"] = "constant"
    step_size: int = Field(default=10, ge=1, le=MANY)
    gamma: float = Field(default=0.1, gt=0)


class TrainingSpec(Section):
    """How long a run trains, and when it is measured and stopped.

    A run is measured on the validation classes before training (epoch 0) and every ``evaluate_every``
    epochs; it stops when the best epoch lies more than ``patience`` epochs back. With ``chunk`` the network
    sees so many images at a time, and the loss still the whole batch: large batches in little memory.
    """

    iterations_per_epoch: int | None = Field(default=100, ge=1, le=MANY)
    max_epochs: int = Field(default=1000, ge=0, le=MANY)
    evaluate_every: int = Field(default=2, ge=1, le=MANY)
    patience: int | None = Field(default=9, ge=0, le=MANY)
    metric: str = "map_at_r"
    eval_batch_size: Size = 256
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    accumulate: Size = 1
    clip_norm: float | None = Field(default=None, gt=0)
    compile: bool = False
    chunk: Size | None = None


class MethodSpec(Section):
    """A method by name, or a new one put together from its parts.

    ``set`` fixes hyperparameters (they leave the search); ``space`` replaces search ranges.
    """

    name: str
    loss: str | None = None
    miner: str | None = None
    sampler: str | None = None
    set: dict[str, Scalar] = Field(default_factory=dict)
    space: dict[str, list[Scalar]] = Field(default_factory=dict)
    samples_per_class: Size | None = None

    @field_validator("name")
    @classmethod
    def _fit_for_files(cls, value: str) -> str:
        """Files and table cells are called after methods, and the baseline's row has a name of its own."""
        if value in BASELINES:
            raise ValueError(f"{value} is the row of the network before training; choose another method name")
        if not re.fullmatch(r"\w[\w .:+=,()-]{0,99}", value):
            raise ValueError(
                f"{value[:40]!r} is no method name: begin with a letter or digit, go on with these and "
                "_ - . : + = , ( ) or spaces, 100 characters at most"
            )
        return value


BASELINES = ("untrained", "pretrained")  # what the row before training is called
RANDOM_TRIALS = 5  # the first ones of gp and tpe, which have nothing to learn from yet


class SearchSpec(Section):
    """How hyperparameters are looked for: the same budget for every method.

    ``first: defaults`` spends the first trial on the values that the methods' own papers recommend,
    ``first: published`` (or "published:deep-dive" and the like) on a published optimum for the dataset.
    ``ranges: published`` searches the ranges that the reality check's trials show, and nothing else, for the
    methods it has; "own" those of the losses' cards. A method's own ``space`` lies over both.
    ``prune`` skips the remaining folds of a trial that can no longer win; reports say so. ``storage`` is the
    URL of a database through which several machines share the search; like every address it is no part of
    an identity or a record.
    """

    trials: int = Field(default=50, ge=1, le=1_000_000)
    repeats: int = Field(default=1, ge=1, le=100, description="whole searches, each with fresh seeds")
    sampler: Literal["gp", "tpe", "random", "grid"] = "gp"
    first: str = Field(default="sampler", pattern=r"^(sampler|defaults|published(:[a-z-]+)?)$")
    ranges: Literal["own", "published"] = "own"
    parallel: int = Field(default=1, ge=1, le=1024, description="trials that are in flight at once")
    prune: bool = False
    storage: str | None = None

    @property
    def random_trials(self) -> int:
        """How many of the trials are drawn at random, whatever was found before them."""
        if self.sampler in ("gp", "tpe"):
            return min(self.trials, RANDOM_TRIALS)
        return self.trials if self.sampler == "random" else 0


class ConfirmSpec(Section):
    """How often the selection is trained anew, with fresh seeds, for the test set; what is kept to look at.

    ``gallery`` is how many test queries are kept with small pictures of their neighbours; 0 keeps none.
    ``rerank`` names ways of re-ranking whose gains are measured too, on each method's first model.
    """

    reruns: int = Field(default=10, ge=1, le=10_000, description="of each search's selection")
    rerank: tuple[str, ...] = ()
    gallery: int = Field(default=24, ge=0, le=1000, description="queries shown with their neighbours")


class EngineSpec(Plugin):
    """Where runs execute. No part of a run's identity."""

    name: str = "local"
    workers: Annotated[int, Field(ge=0, le=1024)] | Literal["auto"] = Field(
        default=1, description="runs at once; 0 = in this process, auto = as many as cores or GPUs allow"
    )
    threads: int = Field(default=1, ge=1, le=1024, description="CPU threads of each run")
    device: str = Field(default="auto", description="cuda, mps or cpu; auto takes the first that is there")
    loaders: Annotated[int, Field(ge=0, le=256)] | Literal["auto"] = Field(
        default="auto", description="processes that read pictures ahead of each run; 0 = none"
    )
    recompute: bool = Field(
        default=False, description="compute activations again in the backward pass instead of keeping them"
    )


class TrackSpec(Plugin):
    """A tool that shows runs while they go on; further keys are its options. No part of any identity."""


class Experiment(Section):
    """One comparison: the protocol, held equal, and the methods.

    ``hyperparameters`` says whether they are searched, or taken without a search from the losses' papers
    ("defaults") or from published optima on the same dataset ("published", those of the reality check;
    "published:deep-dive" and the like name another source).
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    preset: str | None = None
    seed: int = Field(default=0, ge=-LARGEST, le=LARGEST)
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

    @field_validator("track")
    @classmethod
    def _each_once(cls, value: tuple[TrackSpec, ...]) -> tuple[TrackSpec, ...]:
        names = [spec.name for spec in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"tracker {twice[0]} is listed twice; leave one of them out")
        return value

    @field_validator("methods", "track", mode="before")
    @classmethod
    def _bare_names(cls, value: Any) -> Any:
        """``methods: [triplet]`` is short for ``methods: [{name: triplet}]``."""
        if isinstance(value, list | tuple):
            return [{"name": item} if isinstance(item, str) else item for item in value]
        return value

    @field_validator("methods")
    @classmethod
    def _unique(cls, value: tuple[MethodSpec, ...]) -> tuple[MethodSpec, ...]:
        names = [method.name for method in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"method {twice[0]} is listed twice; give one of them another name and `loss:`")
        return value

    @classmethod
    def load(cls, path: str | Path, overrides: tuple[str, ...] = ()) -> Experiment:
        """Read an experiment file, lay it over its preset, then apply ``a.b=value`` overrides."""
        from levelfield.config import _load

        return _load.load(Path(path), overrides)

    @classmethod
    def build(cls, **values: Any) -> Experiment:
        """An experiment from Python values; same schema, same presets, same errors as a file."""
        from levelfield.config import _load

        return _load.build(values, origin="experiment")

    def tracked_by(self, *names: str) -> Experiment:
        """The experiment with these trackers too; those that it names already keep their options."""
        known = {spec.name for spec in self.track}
        more = tuple(TrackSpec(name=name) for name in dict.fromkeys(names) if name not in known)
        return self.model_copy(update={"track": (*self.track, *more)})

    def method(self, name: str) -> MethodSpec:
        """The method called ``name``."""
        for method in self.methods:
            if method.name == name:
                return method
        raise UsageError(f'experiment {self.name} has no method "{name}"')
