"""The resolved experiment, and the specs of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from levelfield import losses, methods, metrics, miners, samplers
from levelfield.config import Experiment, HeadSpec, TrainingSpec
from levelfield.core.seeds import run_seed
from levelfield.core.space import Value
from levelfield.losses import regularizers, synthesis
from levelfield.methods import Method
from levelfield.records import IMAGE_ALGORITHM, DataIdentity, PluginIdentity, Recipe, RunSpec, TrunkIdentity
from levelfield.train import Resources


@dataclass(frozen=True)
class ResolvedExperiment:
    """Experiment whose names, ranges and data have been checked.

    Attributes:
        experiment: The user's settings over those of the preset, with precision "auto" replaced.
        methods: Methods to compare.
        data: Identity of the dataset and its split.
        trunk: Identity of the trunk.
        transform: Identity of the transform.
        metric: Selection metric.
        sign: 1 if a higher value of that metric is better, -1 if a lower one is.
        plugins: Digests of the loaded plug-in files and entry points, by name.
        resources: Local paths and devices; not recorded.
        num_folds: Number of folds, that is of runs per trial.
        split_description: The split in words.
        leaky: True if search and selection use the test set on purpose.
        notes: Adaptations to the data, one sentence each.
        random_start: True if a fitted head has directions that are drawn from the seed.
        repeat: Number of the search, from 0 to ``search.repeats`` - 1; each has its own seeds.
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
    random_start: bool = False
    repeat: int = 0

    @property
    def pretrained(self) -> bool:
        """True if the trunk has pretrained weights."""
        return self.trunk.weights != "none"

    @property
    def baseline_is_epoch_0(self) -> bool:
        """True if the baseline is scored as a run is before its first step; else its trunk's features are.

        A random head would only lose information, so the baseline of random heads has none.
        """
        return self.pretrained and self.experiment.head.init != "random"

    @property
    def baseline_reruns(self) -> int:
        """Number of networks of the baseline: one, unless the network before training depends on the seed."""
        return self.experiment.confirm.reruns if self.random_start or not self.pretrained else 1

    @property
    def baseline(self) -> str:
        """Name of the baseline row."""
        return "pretrained" if self.pretrained else "untrained"

    def run_spec(
        self,
        method: Method,
        hyperparameters: Mapping[str, Value],
        *,
        fold: int,
        seed: int,
        is_trial: bool = False,
    ) -> RunSpec:
        """Return the full spec of one run; a run of a trial has the length of the search."""
        experiment = self.experiment
        return RunSpec(
            data=self.data,
            fold=fold,
            trunk=self.trunk,
            head=method_head(method, experiment),
            transform=self.transform,
            batch=experiment.batch.model_copy(
                update={"adapt": False}
            ),  # the resolved value is stored in the recipe
            optimizer=experiment.optimizer.for_loss_kind(method.card.kind),
            schedule=experiment.schedule,
            training=self.search_training if is_trial else experiment.training,
            metric=self.metric,
            recipe=method_recipe(method, experiment),
            hyperparameters={**method.recorded, **method.fixed, **hyperparameters},
            seed=seed,
            algorithm=1 if self.trunk.mode in ("frozen", "tail") else IMAGE_ALGORITHM,
        )

    @property
    def search_training(self) -> TrainingSpec:
        """Length and evaluation of the runs of trials; ``search.max_epochs`` may shorten them."""
        training, length = self.experiment.training, self.experiment.search.max_epochs
        if length is None or length >= training.max_epochs:
            return training
        return training.model_copy(update={"max_epochs": length})

    @property
    def repeats(self) -> list[ResolvedExperiment]:
        """This experiment once per search, with ``repeat`` set."""
        return [replace(self, repeat=number) for number in range(self.experiment.search.repeats)]

    @property
    def repeat_name(self) -> tuple[str | int, ...]:
        """Extra name of a repeat's random streams; empty for the first, which equals a single search."""
        return ("repeat", self.repeat) if self.repeat else ()

    def seed(self, stage: str, number: int, fold: int) -> int:
        """Return the seed of a run; it is the same for every method."""
        return run_seed(self.experiment.seed, stage, number, fold, repeat=self.repeat)


def method_head(method: Method, experiment: Experiment) -> HeadSpec:
    """Return the head of a method's runs; ``normalize`` defaults to what the loss is defined for."""
    head = experiment.head
    if head.normalize is None:
        head = head.model_copy(update={"normalize": method.card.embedding == "unit"})
    return head


def method_recipe(method: Method, experiment: Experiment) -> Recipe:
    """Return the recipe of a method; parts from plug-ins are identified by the digest of their source."""
    sources = {
        "loss": losses.registry[method.loss].source,
        "sampler": samplers.registry[method.sampler].source,
    }
    if method.miner is not None:
        sources["miner"] = miners.registry[method.miner].source
    for name in {*method.fixed, *method.space}:
        prefix, _, addition = name.partition(".")
        if prefix == "regularizer" and "." not in addition:
            sources[name] = regularizers.registry[addition].source
        if prefix == "synthesis" and "." not in addition:
            sources[name] = synthesis.registry[addition].source
    return Recipe(
        loss=method.loss,
        miner=method.miner,
        sampler=method.sampler,
        samples_per_class=method.resolve_samples_per_class(experiment.batch),
        sources={part: found for part, found in sources.items() if found is not None},
    )


def method_source(method: Method) -> str | None:
    """Return the digest of the file that defines a method; None for methods of this package."""
    known = method.name in methods.registry
    return methods.registry[method.name].source if known else None


def metric_source(name: str) -> str | None:
    """Return the digest of the file that defines a metric; None for metrics of this package."""
    metrics.resolve_metric(name)  # raises on unknown names
    family = f"{name.rpartition('_')[0]}_K"  # recall_at_8 is one of recall_at_K
    return metrics.registry[name if name in metrics.registry.names() else family].source
