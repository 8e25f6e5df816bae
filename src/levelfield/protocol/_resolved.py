"""An experiment that was checked, and the identities of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from levelfield import batches, losses, methods, metrics, miners
from levelfield.config import Experiment, HeadSpec
from levelfield.losses import regularisers, synthesis
from levelfield.methods import Method
from levelfield.records import IMAGE_ALGORITHM, DataIdentity, PluginIdentity, Recipe, RunSpec, TrunkIdentity
from levelfield.seeds import run_seed
from levelfield.space import Value
from levelfield.train import Resources


@dataclass(frozen=True)
class Resolved:
    """An experiment whose names, ranges and data have been checked.

    Attributes:
        experiment: As the user wrote it, over its preset; "auto" for a precision is settled.
        methods: What is compared.
        data: The dataset and its split plan, by content.
        trunk: The network before the head.
        transform: What is done to images.
        metric: The metric that selects.
        sign: 1 if more of that metric is better, -1 if less.
        plugins: The hash of each plug-in file and entry point that was loaded, by name.
        resources: Where things lie on this machine.
        num_folds: How many runs a trial has.
        split_description: The split plan in words.
        leaky: Whether search and selection are shown the test set, on purpose.
        notes: What was adapted to the data, one sentence each.
        repeat: Which of ``search.repeats`` searches this is about; each has fresh seeds throughout.
    """

    experiment: Experiment
    methods: tuple[Method, ...]
    data: DataIdentity
    trunk: TrunkIdentity
    transform: PluginIdentity
    metric: PluginIdentity
    sign: int
    plugins: Mapping[str, str]
    resources: Resources
    num_folds: int
    split_description: str
    leaky: bool
    notes: tuple[str, ...] = ()
    repeat: int = 0

    @property
    def pretrained(self) -> bool:
        """Whether the trunk starts from weights; then the baseline is one network, the same for all."""
        return self.trunk.weights != "none"

    @property
    def baseline(self) -> str:
        """What the row of the network before training is called."""
        return "pretrained" if self.pretrained else "untrained"

    def run_spec(
        self, method: Method, hyperparameters: Mapping[str, Value], *, fold: int, seed: int
    ) -> RunSpec:
        """The full spec of one run."""
        experiment = self.experiment
        return RunSpec(
            data=self.data,
            fold=fold,
            trunk=self.trunk,
            head=head_of(method, experiment),
            transform=self.transform,
            batch=experiment.batch.model_copy(update={"adapt": False}),  # the recipe says what came of it
            optimizer=experiment.optimizer.for_losses(method.card.kind),
            schedule=experiment.schedule,
            training=experiment.training,
            metric=self.metric,
            recipe=recipe_of(method, experiment),
            hyperparameters={**method.fixed, **hyperparameters},
            seed=seed,
            algorithm=1 if self.trunk.mode in ("frozen", "tail") else IMAGE_ALGORITHM,
        )

    @property
    def repeats(self) -> list[Resolved]:
        """The experiment once for each of its searches."""
        return [replace(self, repeat=number) for number in range(self.experiment.search.repeats)]

    @property
    def repeat_name(self) -> tuple[str | int, ...]:
        """What sets the random streams of a repeat apart; the first one has those of a single search."""
        return ("repeat", self.repeat) if self.repeat else ()

    def seed(self, stage: str, number: int, fold: int) -> int:
        """The seed of a run: the same for every method, so that luck is shared too."""
        return run_seed(self.experiment.seed, stage, number, fold, repeat=self.repeat)


def head_of(method: Method, experiment: Experiment) -> HeadSpec:
    """The head of a method's runs: of unit length or not, as its loss is defined, unless the file says it."""
    head = experiment.head
    if head.normalize is None:
        head = head.model_copy(update={"normalize": method.card.embedding == "unit"})
    return head


def recipe_of(method: Method, experiment: Experiment) -> Recipe:
    """The identity of a method's parts; parts from outside the package count with their source's hash."""
    sources = {
        "loss": losses.registry[method.loss].source,
        "sampler": batches.registry[method.sampler].source,
    }
    if method.miner is not None:
        sources["miner"] = miners.registry[method.miner].source
    for name in {*method.fixed, *method.space}:
        prefix, _, addition = name.partition(".")
        if prefix == "regulariser" and "." not in addition:
            sources[name] = regularisers.registry[addition].source
        if prefix == "synthesis" and "." not in addition:
            sources[name] = synthesis.registry[addition].source
    return Recipe(
        loss=method.loss,
        miner=method.miner,
        sampler=method.sampler,
        samples_per_class=method.with_samples(experiment.batch),
        sources={part: found for part, found in sources.items() if found is not None},
    )


def method_source(method: Method) -> str | None:
    """The hash of the file that defines a method, if it is not part of this package."""
    known = method.name in methods.registry
    return methods.registry[method.name].source if known else None


def metric_source(name: str) -> str | None:
    """The hash of the file that defines a metric, if it is not part of this package."""
    metrics.resolve(name)  # refuses a name that is none
    family = f"{name.rpartition('_')[0]}_K"  # recall_at_8 is one of recall_at_K
    return metrics.registry[name if name in metrics.registry.names() else family].source
