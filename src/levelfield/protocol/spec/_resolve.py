"""Resolve an experiment: check it against the registries and the data before anything is computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield import engine, methods, metrics, models
from levelfield.analysis import published
from levelfield.analysis.published import DEFAULT_SOURCE
from levelfield.config import Experiment, LoraSpec, MethodSpec, Plugin, TrunkSpec
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.registry import (
    Registry,
    load_entry_points,
    load_plugin_file,
    loaded_entry_points,
    plugin_digest_now,
)
from levelfield.core.space import Value
from levelfield.data import registry as datasets
from levelfield.data import splits, transforms
from levelfield.data.views import DevelopmentView, open_development_view
from levelfield.methods import Method
from levelfield.protocol.search._optimizer import LARGEST_GRID, grid_size
from levelfield.protocol.spec._batches import fit_batches
from levelfield.protocol.spec._folds import open_with_folds
from levelfield.protocol.spec._head_size import fit_head_size, has_random_start
from levelfield.protocol.spec._network import check_channels, check_network
from levelfield.protocol.spec._resolved import ResolvedExperiment, method_head, metric_source
from levelfield.records import (
    DataIdentity,
    PluginIdentity,
    TrunkIdentity,
)
from levelfield.retrieval.rerank import RERANKERS
from levelfield.train import (
    PluginFile,
    Resources,
    choose_loaders,
    choose_precision,
)

SHOWN_PAIRS = 5  # pairs of files that a message lists


def resolve_experiment(experiment: Experiment, *, recorded: bool = False) -> ResolvedExperiment:
    """Check the experiment against the registries and the data, and return it ready to run.

    An experiment that is ``recorded`` keeps its embedding size: its runs were trained with it.
    """
    load_entry_points()  # part of the identity, whether or not a name of theirs is used
    plugins = [PluginFile(path, _load_plugin(path)) for path in experiment.plugins]
    _check_names(experiment)
    device = engine.worker_device(experiment.engine)
    precision = choose_precision(experiment.training.precision, device)
    training = experiment.training.model_copy(update={"precision": precision})
    experiment = experiment.model_copy(update={"training": training})
    resolved_methods = tuple(_method(experiment, spec) for spec in experiment.methods)
    for method in resolved_methods:
        first_search_point(experiment, method)  # raises if the first trial is invalid
        if experiment.search.sampler == "grid" and (size := grid_size(method.space)) > LARGEST_GRID:
            raise UsageError(
                f"method {method.name}: its grid has {size:.1g} points, more than {LARGEST_GRID:,}; narrow "
                "its ranges with `space:`, or choose another search.sampler"
            )
    experiment, view, fold_notes = open_with_folds(experiment, _open_view)
    experiment, size_notes = (experiment, []) if recorded else fit_head_size(experiment, view)
    check_channels(experiment, view)
    shared_notes = _check_shared_images(experiment, view)
    resolved_methods, batch_notes = fit_batches(resolved_methods, experiment.batch, view)
    resolved = ResolvedExperiment(
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
            dataset_content=view.content,
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
        notes=(*fold_notes, *size_notes, *batch_notes, *shared_notes),
        random_start=has_random_start(experiment.head, view),
    )
    check_network(resolved)
    return resolved


def _method(experiment: Experiment, spec: MethodSpec) -> Method:
    """Return a method of the experiment; without a search, its hyperparameters are fixed."""
    method = methods.resolve_method(spec)
    if experiment.search.ranges == "published":
        method = _with_published_ranges(method, spec, experiment)
    methods.check_combination(
        method,
        samples_per_class=method.resolve_samples_per_class(experiment.batch),
        unit_embeddings=method_head(method, experiment).normalize,
    )
    if experiment.hyperparameters == "search":
        return method
    values = method.defaults(experiment.dataset.name)
    own = method.published.get(experiment.dataset.name, {})
    if experiment.hyperparameters != "defaults" and not method.space.keys() <= own.keys():
        _, _, source = experiment.hyperparameters.partition(":")
        values |= _published(method, experiment, source)
    return replace(method, fixed={**values, **method.fixed})


def _with_published_ranges(method: Method, spec: MethodSpec, experiment: Experiment) -> Method:
    """Return the method with the reality check's search ranges; other hyperparameters are fixed."""
    space = published.search_space(method.name, experiment.dataset.name, batch=experiment.batch.size)
    if not space:
        return method
    wider = replace(method, ranges={**space, **method.ranges})
    values = wider.defaults(experiment.dataset.name)
    unsearched = [name for name in wider.space if name not in space and name not in spec.space]
    return replace(wider, fixed={**{name: values[name] for name in unsearched}, **wider.fixed})


def first_search_point(experiment: Experiment, method: Method) -> dict[str, Value] | None:
    """Return the hyperparameters of trial 0 if the experiment prescribes them, else None."""
    kind, _, source = experiment.search.first.partition(":")
    if kind == "sampler":
        return None
    values = method.defaults(experiment.dataset.name)
    if kind == "published" and method.space:
        values |= _published(method, experiment, source)
    inside = {name: values[name] for name in method.space if name in values}
    method.check_hyperparameters(inside)
    return inside if inside.keys() == method.space.keys() else None


def _published(method: Method, experiment: Experiment, source: str) -> dict[str, Value]:
    """Return the published optimum, for the experiment's batch size if the source reports several.

    The default source is the reality check.
    """
    source = source or DEFAULT_SOURCE
    known = {row.batch_size for row in published.optima(source=source, method=method.name)}
    batch = experiment.batch.size if experiment.batch.size in known else None
    return published.optimum(method.name, experiment.dataset.name, batch=batch, source=source)


def _identity(registry: Registry[Any, ...], plugin: Plugin) -> PluginIdentity:
    return PluginIdentity(name=plugin.name, options=plugin.options, source=registry[plugin.name].source)


def _trunk_identity(trunk: TrunkSpec) -> TrunkIdentity:
    """Return the identity of the trunk; a tail that starts after the last layer counts as a frozen trunk."""
    mode = "frozen" if trunk.mode == "tail" and trunk.cut == models.HEAD else trunk.mode
    return TrunkIdentity(
        **_identity(models.registry, trunk).model_dump(),
        weights=models.weights_identity(trunk.weights),
        mode=mode,
        bn_mode="train" if mode == "frozen" else trunk.bn_mode,  # a frozen trunk trains no layers
        views=trunk.views if mode in ("frozen", "tail") else 0,  # other modes read images and cache no views
        cut=trunk.cut if mode == "tail" else None,
        lora=(trunk.lora or LoraSpec()) if mode == "lora" else None,
    )


def _load_plugin(path: Path) -> str:
    digest = load_plugin_file(path)
    if digest != plugin_digest_now(path):
        raise UsageError(
            f"plug-in file {path}, or a module beside it, was changed after this process imported it; "
            "start Python again to use the new version"
        )
    return digest


def _by_name(plugins: list[PluginFile]) -> dict[str, str]:
    """Return the digests of plug-in files by file name; local paths are not recorded."""
    names = [plugin.path.name for plugin in plugins]
    return {
        f"{plugin.path.parent.name}/{name}" if names.count(name) > 1 else name: plugin.digest
        for name, plugin in zip(names, plugins, strict=True)
    }


def _check_names(experiment: Experiment) -> None:
    """Raise on names and options that are wrong whatever the data is."""
    datasets.check_options(datasets[experiment.dataset.name], experiment.dataset.options)
    splits.registry.check_options(splits.registry[experiment.split.name], experiment.split.options)
    models.registry.check_options(models.registry[experiment.trunk.name], experiment.trunk.options)
    transforms.registry.check_options(
        transforms.registry[experiment.transform.name], experiment.transform.options
    )
    engine.check_engine(experiment.engine)
    for name in experiment.confirm.rerank:
        if name not in RERANKERS:
            raise UsageError(f'confirm.rerank: unknown re-ranking "{name}"{did_you_mean(name, RERANKERS)}')
    for metric in experiment.metrics:
        metrics.resolve_metric(metric)
    metrics.selection_sign(experiment.training.metric)  # raises if the metric has no direction
    if experiment.training.max_epochs == 0:
        raise UsageError("training.max_epochs is 0, which trains nothing; set it to at least 1")


def _check_shared_images(experiment: Experiment, view: DevelopmentView) -> list[str]:
    """Raise if an image is in both development and test; return a note where that is allowed.

    A published benchmark is not changed by us: its own duplicates are noted, not refused.
    """
    pairs = view.shared_images
    if not pairs:
        return []
    shown = "; ".join(f"{one} = {other}" for one, other in pairs[:SHOWN_PAIRS])
    more = f"; and {len(pairs) - SHOWN_PAIRS} more" if len(pairs) > SHOWN_PAIRS else ""
    images = "image is" if len(pairs) == 1 else "images are"
    if view.official or experiment.dataset.allow_shared_images:
        return [
            f"{len(pairs)} development {images} in the test set too, with the same content: {shown}{more}."
        ]
    raise UsageError(
        f"{len(pairs)} development {images} in the test set too, with the same content: {shown}{more}; "
        "remove one of each pair, or set dataset.allow_shared_images=true, which every report states"
    )


def _open_view(experiment: Experiment) -> DevelopmentView:
    dataset = experiment.dataset
    options = dataset.options | ({} if dataset.root is None else {"root": str(dataset.root)})
    split = experiment.split
    view = open_development_view(
        dataset.name,
        dataset_options=options,
        split=split.name,
        split_options=split.options,
        transform=experiment.transform.name,
        transform_options=experiment.transform.options,
    )
    if view.leaky and split.options.get("allow_test_feedback") is not True:
        raise UsageError(
            f"split plan {split.name} tunes on the test set; choose another plan, or set "
            "split.allow_test_feedback=true, which marks every report as leaky"
        )
    return view
