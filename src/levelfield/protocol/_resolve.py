"""From an experiment file to something that can be carried out; what can be wrong is found here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from levelfield import batches, engine, losses, methods, metrics, miners, models, published
from levelfield.config import Experiment, HeadSpec, LoraSpec, MethodSpec, Plugin, TrunkSpec
from levelfield.data import registry as datasets
from levelfield.data import splits, transforms
from levelfield.data.views import DevelopmentView, open_development
from levelfield.errors import UsageError, did_you_mean
from levelfield.losses import regularisers, synthesis
from levelfield.methods import Method
from levelfield.protocol._batches import fit_batches
from levelfield.protocol._folds import open_with_folds
from levelfield.protocol._optimise import LARGEST_GRID, grid_size
from levelfield.published import DEFAULT_SOURCE
from levelfield.records import (
    IMAGE_ALGORITHM,
    DataIdentity,
    PluginIdentity,
    Recipe,
    RunSpec,
    TrunkIdentity,
)
from levelfield.registry import Registry, load_plugin_file, loaded_entry_points, plugin_digest_now
from levelfield.rerank import RERANKERS
from levelfield.seeds import run_seed, torch_generator
from levelfield.space import Value
from levelfield.train import (
    PluginFile,
    Resources,
    build_embedder,
    choose_loaders,
    choose_precision,
)


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


def resolve(experiment: Experiment) -> Resolved:
    """Check the experiment against the registries and the data, before anything is computed."""
    plugins = [PluginFile(path, _load_plugin(path)) for path in experiment.plugins]
    _check_names(experiment)
    device = engine.device_of(experiment.engine)
    precision = choose_precision(experiment.training.precision, device)
    training = experiment.training.model_copy(update={"precision": precision})
    experiment = experiment.model_copy(update={"training": training})
    resolved_methods = tuple(_method(experiment, spec) for spec in experiment.methods)
    for method in resolved_methods:
        first_point(experiment, method)  # refuses what cannot be the first trial
        if experiment.search.sampler == "grid" and (size := grid_size(method.space)) > LARGEST_GRID:
            raise UsageError(
                f"method {method.name}: its grid has {size:.1g} points, more than {LARGEST_GRID:,}; narrow "
                "its ranges with `space:`, or choose another search.sampler"
            )
    experiment, view, of_folds = open_with_folds(experiment, _open)
    resolved_methods, of_batches = fit_batches(resolved_methods, experiment.batch, view)
    resolved = Resolved(
        experiment=experiment,
        methods=resolved_methods,
        data=DataIdentity(
            **_identity(datasets, experiment.dataset).model_dump(),
            fingerprint=view.fingerprint,
            split=_identity(splits.registry, experiment.split),
        ),
        trunk=_trunk_identity(experiment.trunk),
        transform=_identity(transforms.registry, experiment.transform),
        metric=PluginIdentity(
            name=experiment.training.metric, source=metric_source(experiment.training.metric)
        ),
        sign=metrics.selection_sign(experiment.training.metric),
        plugins={**_by_name(plugins), **loaded_entry_points()},
        resources=Resources(
            dataset_root=experiment.dataset.root,
            weights=experiment.trunk.weights,
            plugins=tuple(plugins),
            device=device,
            threads=experiment.engine.threads,
            loaders=choose_loaders(experiment.engine, view.dataset.images, device=device),
            recompute=experiment.engine.recompute,
        ),
        num_folds=len(view.folds),
        split_description=view.description,
        leaky=view.leaky,
        notes=(*of_folds, *of_batches),
    )
    _check_network(resolved)
    return resolved


def _method(experiment: Experiment, spec: MethodSpec) -> Method:
    """A method of the experiment, with its hyperparameters fixed if there is to be no search."""
    method = methods.resolve(spec)
    if experiment.search.ranges == "published":
        method = _with_published_ranges(method, spec, experiment)
    methods.check_sense(method, samples_per_class=method.with_samples(experiment.batch))
    if experiment.hyperparameters == "search":
        return method
    values = method.defaults(experiment.dataset.name)
    if experiment.hyperparameters != "defaults" and method.space:
        _, _, source = experiment.hyperparameters.partition(":")
        values |= _published(method, experiment, source)
    return replace(method, fixed={**values, **method.fixed})


def _with_published_ranges(method: Method, spec: MethodSpec, experiment: Experiment) -> Method:
    """The method searched where the reality check did; what that left alone stays at its default."""
    space = published.search_space(method.name, experiment.dataset.name, batch=experiment.batch.size)
    if not space:
        return method
    wider = replace(method, ranges={**space, **method.ranges})
    values = wider.defaults(experiment.dataset.name)
    alone = [name for name in wider.space if name not in space and name not in spec.space]
    return replace(wider, fixed={**{name: values[name] for name in alone}, **wider.fixed})


def first_point(experiment: Experiment, method: Method) -> dict[str, Value] | None:
    """What the first trial tries, where the experiment wants recommended values there."""
    kind, _, source = experiment.search.first.partition(":")
    if kind == "sampler":
        return None
    values = method.defaults(experiment.dataset.name)
    if kind == "published" and method.space:
        values |= _published(method, experiment, source)
    inside = {name: values[name] for name in method.space if name in values}
    method.check(inside)
    return inside if inside.keys() == method.space.keys() else None


def _published(method: Method, experiment: Experiment, source: str) -> dict[str, Value]:
    """The published optimum; for the experiment's batch size, where the source distinguishes it.

    Without a source it is that of the reality check.
    """
    source = source or DEFAULT_SOURCE
    known = {row.batch_size for row in published.optima(source=source, method=method.name)}
    batch = experiment.batch.size if experiment.batch.size in known else None
    return published.optimum(method.name, experiment.dataset.name, batch=batch, source=source)


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


def _identity(registry: Registry[Any], plugin: Plugin) -> PluginIdentity:
    return PluginIdentity(name=plugin.name, options=plugin.options, source=registry[plugin.name].source)


def _trunk_identity(trunk: TrunkSpec) -> TrunkIdentity:
    """A trunk by all that a run depends on; a tail that begins after the last layer is a frozen trunk."""
    mode = "frozen" if trunk.mode == "tail" and trunk.cut == models.HEAD else trunk.mode
    return TrunkIdentity(
        **_identity(models.registry, trunk).model_dump(),
        weights=models.weights_identity(trunk.weights),
        mode=mode,
        bn_mode=trunk.bn_mode,
        views=trunk.views if mode in ("frozen", "tail") else 0,  # others read pictures, and keep no views
        cut=trunk.cut if mode == "tail" else None,
        lora=(trunk.lora or LoraSpec()) if mode == "lora" else None,
    )


def _load_plugin(path: Path) -> str:
    digest = load_plugin_file(path)
    if digest != plugin_digest_now(path):
        raise UsageError(
            f"plug-in file {path}, or a module beside it, was changed after this process imported it; "
            "start Python again to use the new text"
        )
    return digest


def _by_name(plugins: list[PluginFile]) -> dict[str, str]:
    """The hashes of files by their names; the paths are this machine's own affair."""
    names = [plugin.path.name for plugin in plugins]
    return {
        f"{plugin.path.parent.name}/{name}" if names.count(name) > 1 else name: plugin.digest
        for name, plugin in zip(names, plugins, strict=True)
    }


def _check_names(experiment: Experiment) -> None:
    """Every name and option that can be checked without data."""
    datasets.check_options(datasets[experiment.dataset.name], experiment.dataset.options)
    splits.registry.check_options(splits.registry[experiment.split.name], experiment.split.options)
    models.registry.check_options(models.registry[experiment.trunk.name], experiment.trunk.options)
    transforms.registry.check_options(
        transforms.registry[experiment.transform.name], experiment.transform.options
    )
    engine.check(experiment.engine)
    for name in experiment.confirm.rerank:
        if name not in RERANKERS:
            raise UsageError(f'confirm.rerank: unknown re-ranking "{name}"{did_you_mean(name, RERANKERS)}')
    for metric in experiment.metrics:
        metrics.resolve(metric)
    metrics.selection_sign(experiment.training.metric)  # refuses a metric that has no better or worse
    if experiment.training.max_epochs == 0:
        raise UsageError("training.max_epochs = 0 would train nothing; choose at least 1")


def _check_network(resolved: Resolved) -> None:
    """What only the network can tell: cuts, the layers of lora, whether the head can start as asked."""
    experiment = resolved.experiment
    trunk, head, training = resolved.trunk, experiment.head, experiment.training
    if trunk.mode == "tail" and trunk.views == 0 and _augments(experiment.transform):
        raise UsageError(
            f"trunk.views is 0, but transform {experiment.transform.name} augments images in training; set "
            "trunk.views to the number of augmented views to keep, or take a transform that does not augment"
        )
    for method, addition in product(resolved.methods, ("mixup.alpha", "s2sd.weight")):
        if training.chunk is not None and addition in {*method.fixed, *method.space}:
            raise UsageError(
                f"training.chunk cannot be used with {addition.partition('.')[0]}, which method "
                f"{method.name} has; leave one of them out"
            )
    plain = trunk.mode in ("finetune", "frozen") and (head.kind == "linear" or head.init == "random")
    recompute = experiment.engine.recompute and trunk.mode != "frozen"
    if recompute and trunk.mode == "tail":
        raise UsageError(
            "engine.recompute does not go with trunk.mode tail, which keeps little anyway; leave it out"
        )
    if plain and training.chunk is None and not recompute:
        return
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    embedder = build_embedder(spec, Resources(recompute=recompute))  # its weights do not matter here
    models.check_init(embedder.head, head.init)
    if trunk.mode in ("lora", "bitfit", "norm") and not embedder.parameter_groups()["trunk"]:
        raise UsageError(
            f"trunk.mode {trunk.mode} has nothing to train here: trunk.freeze_bn freezes the layers that it "
            "would train; leave trunk.freeze_bn out, or set it to true"
        )
    trains_batch_norms = trunk.mode != "frozen" and trunk.bn_mode == "train" and embedder.batch_norms()
    if training.chunk is not None and trains_batch_norms:
        raise UsageError(
            "training.chunk needs trunk.freeze_bn: BatchNorm layers in training mode would see chunks "
            "instead of the whole batch"
        )
    if recompute and trains_batch_norms:
        raise UsageError(
            "engine.recompute needs trunk.freeze_bn: BatchNorm layers in training mode would count each "
            "batch twice in their statistics"
        )


def _augments(transform: Plugin) -> bool:
    """Whether a transform does something else in training than in evaluation."""
    train, evaluate = (
        transforms.create(transform.name, train=train, **transform.options) for train in (True, False)
    )
    if " at 0x" not in repr(train) + repr(evaluate):
        return repr(train) != repr(evaluate)
    # What prints nothing but its address must show what it does.
    picture = torch.randint(0, 256, (3, 320, 288), dtype=torch.uint8, generator=torch_generator("augments"))
    try:
        expected = evaluate([picture], torch_generator("augments", "evaluation"))
        made = [train([picture], torch_generator("augments", number)) for number in range(8)]
    except Exception:  # it wants other pictures, and a plug-in may raise anything
        return True
    return not all(torch.equal(expected, one) for one in made)


def _open(experiment: Experiment) -> DevelopmentView:
    dataset = experiment.dataset
    options = dataset.options | ({} if dataset.root is None else {"root": str(dataset.root)})
    split = experiment.split
    view = open_development(
        dataset.name,
        dataset_options=options,
        split=split.name,
        split_options=split.options,
        transform=experiment.transform.name,
        transform_options=experiment.transform.options,
    )
    if view.leaky and split.options.get("allow_test_feedback") is not True:
        raise UsageError(
            f"split plan {split.name} tunes on the test set; choose another plan, or say "
            "split.allow_test_feedback=true and every report will be stamped leaky"
        )
    return view
