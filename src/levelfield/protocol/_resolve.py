"""From an experiment file to something that can be carried out; what can be wrong is found here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield import engine, methods, metrics, models, published
from levelfield.config import Experiment, LoraSpec, MethodSpec, Plugin, TrunkSpec
from levelfield.data import registry as datasets
from levelfield.data import splits, transforms
from levelfield.data.views import DevelopmentView, open_development
from levelfield.errors import UsageError, did_you_mean
from levelfield.methods import Method
from levelfield.protocol._batches import fit_batches
from levelfield.protocol._folds import open_with_folds
from levelfield.protocol._network import check_network
from levelfield.protocol._optimise import LARGEST_GRID, grid_size
from levelfield.protocol._resolved import Resolved, metric_source
from levelfield.published import DEFAULT_SOURCE
from levelfield.records import (
    DataIdentity,
    PluginIdentity,
    TrunkIdentity,
)
from levelfield.registry import Registry, load_plugin_file, loaded_entry_points, plugin_digest_now
from levelfield.rerank import RERANKERS
from levelfield.space import Value
from levelfield.train import (
    PluginFile,
    Resources,
    choose_loaders,
    choose_precision,
)


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
    check_network(resolved)
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


def _identity(registry: Registry[Any], plugin: Plugin) -> PluginIdentity:
    return PluginIdentity(name=plugin.name, options=plugin.options, source=registry[plugin.name].source)


def _trunk_identity(trunk: TrunkSpec) -> TrunkIdentity:
    """A trunk by all that a run depends on; a tail that begins after the last layer is a frozen trunk."""
    mode = "frozen" if trunk.mode == "tail" and trunk.cut == models.HEAD else trunk.mode
    return TrunkIdentity(
        **_identity(models.registry, trunk).model_dump(),
        weights=models.weights_identity(trunk.weights),
        mode=mode,
        bn_mode="train" if mode == "frozen" else trunk.bn_mode,  # a frozen trunk never trains its layers
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
