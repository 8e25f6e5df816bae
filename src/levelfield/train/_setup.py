"""Set up a run from its spec: development view, inputs, network.

Objects that runs share stay in memory for the life of the process, so a worker loads the data once.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from levelfield import models
from levelfield.config import LoraSpec
from levelfield.core.errors import RunError
from levelfield.core.registry import load_plugin_file
from levelfield.core.seeds import seed_for
from levelfield.data import Dataset, cache_directory, transforms
from levelfield.data.views import DevelopmentView, open_development_view
from levelfield.models.extraction import FeatureSource
from levelfield.models.features import FeatureStore, cached_features
from levelfield.records import (
    DataIdentity,
    PluginIdentity,
    RunSpec,
    TrunkIdentity,
    rows_digest,
)
from levelfield.train._inputs import FeatureInputs, ImageInputs, Inputs


@dataclass(frozen=True)
class PluginFile:
    """Plug-in file of the user, and its digest at the start of the experiment."""

    path: Path
    digest: str


@dataclass(frozen=True)
class Resources:
    """Local paths and limits of a run; not part of the run's identity.

    Attributes:
        dataset_root: Directory of the dataset; None if the dataset needs none.
        weights: Path or public name of the trunk's weights; "none" for random weights.
        plugins: The user's plug-in files.
        device: Device to compute on.
        threads: CPU threads.
        loaders: Background processes that load images.
        recompute: Whether activations are recomputed in the backward pass, to save memory.
    """

    dataset_root: Path | None = None
    dataset_content: str = ""
    weights: str = "none"
    plugins: tuple[PluginFile, ...] = ()
    device: str = "cpu"
    threads: int = 1
    loaders: int = 0
    recompute: bool = False


def prepare_process(resources: Resources) -> None:
    """Load the user's plug-ins and set the number of threads, which affects the last bits of sums.

    Raises:
        RunError: A plug-in was edited after the experiment began. Its runs would be recorded under the
            digest of the old code.
    """
    for plugin in resources.plugins:
        if load_plugin_file(plugin.path) != plugin.digest:
            raise RunError(
                f"the plug-in {plugin.path} changed while the experiment ran; give the same command again"
            )
    torch.set_num_threads(resources.threads)


def load_development_view(spec: RunSpec, resources: Resources) -> DevelopmentView:
    """Return the development view of the run's data; raise RunError if the data has changed."""
    identity = spec.data
    view = _open_view(
        identity.model_dump_json(),
        spec.transform.model_dump_json(),
        resources.dataset_root,
        resources.dataset_content,
    )
    if view.fingerprint != identity.fingerprint:
        raise RunError(
            f"dataset {identity.name} has changed since the experiment began (fingerprint is "
            f"{view.fingerprint}, was {identity.fingerprint}); restore it, or use a new --out directory"
        )
    if resources.dataset_content and view.content != resources.dataset_content:
        raise RunError(
            f"images of dataset {identity.name} have changed since the experiment began; restore them, or "
            "use a new --out directory"
        )
    return view


# The cache keys are whole identities: in a notebook the code of a plug-in, a weights file or the data can
# change while the name stays.
@lru_cache(maxsize=4)
def _open_view(data: str, transform: str, root: Path | None, content: str) -> DevelopmentView:
    identity = DataIdentity.model_validate_json(data)
    images = PluginIdentity.model_validate_json(transform)
    return open_development_view(
        identity.name,
        dataset_options=identity.options | ({} if root is None else {"root": str(root)}),
        split=identity.split.name,
        split_options=identity.split.options,
        transform=images.name,
        transform_options=images.options,
    )


_features: dict[tuple[Any, ...], FeatureStore] = {}


def create_inputs(dataset: Dataset, spec: RunSpec, resources: Resources, *, train: bool) -> Inputs:
    """Return the network's inputs for ``dataset``: images, or cached outputs of a frozen network."""
    if uses_cached_features(spec):
        key = _feature_key(dataset, spec, resources, train=train)
        if key not in _features:  # checking the file takes longer than training a head
            _features[key] = compute_trunk_features(dataset, spec, resources, train=train)
        store = _features[key]
        return FeatureInputs(store.all(), store.augmented() if store.views else None)
    return ImageInputs(
        dataset.images,
        partial(transforms.create, spec.transform.name, **spec.transform.options),
        loaders=resources.loaders,
        prepare=partial(prepare_process, resources),
    )


def _feature_key(dataset: Dataset, spec: RunSpec, resources: Resources, *, train: bool) -> tuple[Any, ...]:
    """Return what the features of ``dataset`` depend on, without hashing the network: it is shared too."""
    rows = "" if dataset.row_numbers is None else rows_digest(dataset.row_numbers)
    return (
        *(dataset.name, dataset.fingerprint, dataset.content, len(dataset), rows),
        *(part.model_dump_json() for part in (spec.data, spec.trunk, spec.transform)),
        *(spec.head.pooling, resources.dataset_root, resources.weights, resources.device, train),
    )


def uses_cached_features(spec: RunSpec) -> bool:
    """Return True if a run trains on cached outputs of a frozen network instead of images."""
    return spec.trunk.mode in ("frozen", "tail")


def compute_trunk_features(
    dataset: Dataset,
    spec: RunSpec,
    resources: Resources,
    *,
    train: bool,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FeatureStore:
    """Return the outputs of the frozen part of the trunk for ``dataset``, from the cache if possible."""
    source, options = create_feature_source(spec, resources, train=train)
    return cached_features(
        cache_directory() / "features",
        source=source,
        dataset=dataset,
        threads=os.cpu_count(),
        progress=progress,
        **options,
    )


def create_feature_source(
    spec: RunSpec, resources: Resources, *, train: bool
) -> tuple[FeatureSource, dict[str, Any]]:
    """Return the network that computes a run's features, and the options of transform and views."""
    source: FeatureSource = (
        build_embedder(spec, resources) if spec.trunk.cut is None else _cut_trunk(spec, resources)[0]
    )
    source.to(resources.device).eval()
    return source, {
        "transform": spec.transform.name,
        "transform_options": spec.transform.options,
        "views": spec.trunk.views if train else 0,
    }


def build_embedder(spec: RunSpec, resources: Resources) -> models.Embedder:
    """Return the network before training; in tail mode its inputs are activations instead of images.

    A fitted head (``head.init``) is set later, when the run begins.
    """
    match spec.trunk.mode:
        case "frozen":
            trunk = _shared_trunk(spec, resources)
        case "tail":
            trunk = copy.deepcopy(_cut_trunk(spec, resources)[1])
        case _:
            trunk = _create_trunk(spec.trunk, resources.weights, seed_for(spec.seed, "trunk"))
    match spec.trunk.mode:
        case "lora":
            lora = spec.trunk.lora or LoraSpec()
            seed = seed_for(spec.seed, "lora")
            models.add_lora(trunk, rank=lora.rank, alpha=lora.alpha, targets=lora.targets, seed=seed)
        case "bitfit":
            models.train_biases(trunk)
        case "norm":
            models.train_norms(trunk)
    if resources.recompute and spec.trunk.mode != "frozen":
        models.enable_gradient_checkpointing(trunk)
    return _with_head(trunk, spec)


def to_full_embedder(embedder: models.Embedder, spec: RunSpec, resources: Resources) -> models.Embedder:
    """Return a run's trained network as plain layers that take images, in every trunk mode."""
    match spec.trunk.mode:
        case "tail":
            trunk = _create_trunk(spec.trunk, resources.weights, 0)
            full = _with_head(trunk, spec)
            full.load_state_dict(embedder.state_dict(), strict=False)  # tail and full trunk share names
            return full.train(embedder.training)
        case "lora":
            full = _with_head(_create_trunk(spec.trunk, "none", 0), spec)  # the state holds every weight
            full.load_state_dict(models.merged_state(embedder))
            return full.train(embedder.training)
        case _:
            return embedder


def _with_head(trunk: models.Trunk, spec: RunSpec) -> models.Embedder:
    return models.create_embedder(
        trunk=trunk,
        pooling=spec.head.pooling,
        head=spec.head.kind,
        size=spec.head.size,
        normalize=spec.head.normalize is not False,
        freeze_bn=spec.trunk.bn_mode,  # type: ignore[arg-type]  # a plain string in records
        seed=seed_for(spec.seed, "head"),
    )


def _cut_trunk(spec: RunSpec, resources: Resources) -> tuple[models.LowerPart, models.Trunk]:
    return _split_trunk(spec.trunk.model_dump_json(), resources.weights)


@lru_cache(maxsize=1)
def _split_trunk(trunk: str, weights: str) -> tuple[models.LowerPart, models.Trunk]:
    """Return the lower part of a trunk, which all runs share, and the upper part, which they start from."""
    cut = str(TrunkIdentity.model_validate_json(trunk).cut)
    return models.split_at_cut(_frozen_trunk(trunk, weights), cut)


def _shared_trunk(spec: RunSpec, resources: Resources) -> models.Trunk:
    return _frozen_trunk(spec.trunk.model_dump_json(), resources.weights)


@lru_cache(maxsize=1)
def _frozen_trunk(trunk: str, weights: str) -> models.Trunk:
    """Return the frozen trunk that all runs share; without weights it is the same random one for all."""
    return _create_trunk(TrunkIdentity.model_validate_json(trunk), weights, 0)


def _create_trunk(trunk: TrunkIdentity, weights: str, seed: int) -> models.Trunk:
    """Return the trunk of a run; raise RunError if the weights file has changed."""
    named_by_content = trunk.weights.startswith("sha256:") and weights != "none"
    if named_by_content and models.weights_identity(weights) != trunk.weights:
        raise RunError(
            f"the weights {weights} have changed since the experiment began; give the same command again to "
            "use the new ones, or restore the file"
        )
    return models.create_trunk(trunk.name, weights=weights, seed=seed, **trunk.options)
