"""From a run's spec to what it needs: the development view, its inputs, the network.

What many runs share is kept for the life of the process: a worker loads the data once.
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
from levelfield.data import Dataset, cache_folder, transforms
from levelfield.data.views import DevelopmentView, open_development
from levelfield.errors import RunError
from levelfield.models.extraction import FeatureSource
from levelfield.models.features import FeatureStore, cached_features, feature_identity
from levelfield.records import (
    DataIdentity,
    PluginIdentity,
    RunFolder,
    RunResult,
    RunSpec,
    TrunkIdentity,
    feature_id,
)
from levelfield.registry import load_plugin_file
from levelfield.seeds import seed_for
from levelfield.train._inputs import FeatureInputs, ImageInputs, Inputs
from levelfield.train._loop import FoldData, execute


@dataclass(frozen=True)
class PluginFile:
    """A user's file of plug-ins, and the hash that it had when the experiment began."""

    path: Path
    digest: str


@dataclass(frozen=True)
class Resources:
    """Where things lie on this machine, and how much of it a run may use. No part of an identity."""

    dataset_root: Path | None = None
    weights: str = "none"
    plugins: tuple[PluginFile, ...] = ()
    device: str = "cpu"
    threads: int = 1
    loaders: int = 0
    recompute: bool = False


@dataclass(frozen=True)
class RunJob:
    """A run to carry out somewhere: picklable, and complete."""

    spec: RunSpec
    resources: Resources
    folder: Path


def run_job(job: RunJob) -> RunResult:
    """Carry out one run in this process."""
    prepare_process(job.resources)
    done = RunFolder(job.folder).result()
    if done is not None:
        return done  # without loading any data
    view = development(job.spec, job.resources)
    fold = view.folds[job.spec.fold]
    data = FoldData(
        inputs=inputs_of(view.dataset, job.spec, job.resources, train=True),
        labels=view.dataset.labels,
        train=fold.train,
        validation=fold.validation,
    )
    embedder = build_embedder(job.spec, job.resources)
    return execute(job.spec, data, embedder, RunFolder(job.folder), device=job.resources.device)


def prepare_process(resources: Resources) -> None:
    """Load the user's plug-ins and bind the number of threads, which the bits of a sum depend on.

    A worker may import a plug-in hours after the experiment began. If it is another text by then, its runs
    must not be filed under the name of the first.
    """
    for plugin in resources.plugins:
        if load_plugin_file(plugin.path) != plugin.digest:
            raise RunError(
                f"the plug-in {plugin.path} changed while the experiment ran; give the same command again"
            )
    torch.set_num_threads(resources.threads)


def development(spec: RunSpec, resources: Resources) -> DevelopmentView:
    """The development view of the run's data; refuses data that is not what the spec names."""
    identity = spec.data
    view = _open(identity.model_dump_json(), spec.transform.model_dump_json(), resources.dataset_root)
    if view.fingerprint != identity.fingerprint:
        raise RunError(
            f"dataset {identity.name} has changed since the experiment began (fingerprint "
            f"{view.fingerprint}, was {identity.fingerprint}); restore it, or begin with a new --out folder"
        )
    return view


# What is kept is named by whole identities, as runs are: in a notebook the code of a plug-in, a file of
# weights or the data can change while their names stay.
@lru_cache(maxsize=4)
def _open(data: str, transform: str, root: Path | None) -> DevelopmentView:
    identity = DataIdentity.model_validate_json(data)
    images = PluginIdentity.model_validate_json(transform)
    return open_development(
        identity.name,
        dataset_options=identity.options | ({} if root is None else {"root": str(root)}),
        split=identity.split.name,
        split_options=identity.split.options,
        transform=images.name,
        transform_options=images.options,
    )


_features: dict[str, FeatureStore] = {}


def inputs_of(dataset: Dataset, spec: RunSpec, resources: Resources, *, train: bool) -> Inputs:
    """What the network is fed for ``dataset``: its images, or what the frozen part of the trunk gives."""
    if learns_from_features(spec):
        source, options = feature_source(spec, resources, train=train)
        key = feature_id(feature_identity(source, dataset, **options))
        if key not in _features:  # checking the file takes longer than training a head
            _features[key] = trunk_features(dataset, spec, resources, train=train)
        store = _features[key]
        return FeatureInputs(store.all(), store.augmented() if store.views else None)
    return ImageInputs(
        dataset.images,
        partial(transforms.create, spec.transform.name, **spec.transform.options),
        loaders=resources.loaders,
        prepare=partial(prepare_process, resources),
    )


def learns_from_features(spec: RunSpec) -> bool:
    """Whether a run reads what a frozen network gives, computed once, instead of images."""
    return spec.trunk.mode in ("frozen", "tail")


def trunk_features(
    dataset: Dataset,
    spec: RunSpec,
    resources: Resources,
    *,
    train: bool,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FeatureStore:
    """What the frozen part of the trunk gives for ``dataset``, kept in the cache folder for all runs."""
    source, options = feature_source(spec, resources, train=train)
    return cached_features(
        cache_folder() / "features",
        source=source,
        dataset=dataset,
        threads=os.cpu_count(),
        progress=progress,
        **options,
    )


def feature_source(
    spec: RunSpec, resources: Resources, *, train: bool
) -> tuple[FeatureSource, dict[str, Any]]:
    """What computes a run's features: the network, and the options of the transform and its views."""
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
    """The network as the run begins with it; in tail mode it takes activations instead of images.

    A fitted start of the head (``head.init``) comes later, when the run begins.
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
        models.recompute_activations(trunk)
    return _with_head(trunk, spec)


def whole_embedder(embedder: models.Embedder, spec: RunSpec, resources: Resources) -> models.Embedder:
    """A run's trained network as one of plain layers that takes images, whatever the run was fed."""
    match spec.trunk.mode:
        case "tail":
            trunk = _create_trunk(spec.trunk, resources.weights, 0)
            whole = _with_head(trunk, spec)
            whole.load_state_dict(embedder.state_dict(), strict=False)  # the tail's names are the whole's
            return whole.train(embedder.training)
        case "lora":
            whole = _with_head(_create_trunk(spec.trunk, "none", 0), spec)  # every weight is in the state
            whole.load_state_dict(models.merged_state(embedder))
            return whole.train(embedder.training)
        case _:
            return embedder


def _with_head(trunk: models.Trunk, spec: RunSpec) -> models.Embedder:
    return models.build(
        trunk=trunk,
        pooling=spec.head.pooling,
        head=spec.head.kind,
        size=spec.head.size,
        normalize=spec.head.normalize is not False,
        freeze_bn=spec.trunk.bn_mode,  # type: ignore[arg-type]  # a plain text in records
        seed=seed_for(spec.seed, "head"),
    )


def _cut_trunk(spec: RunSpec, resources: Resources) -> tuple[models.LowerPart, models.Trunk]:
    return _split_trunk(spec.trunk.model_dump_json(), resources.weights)


@lru_cache(maxsize=1)
def _split_trunk(trunk: str, weights: str) -> tuple[models.LowerPart, models.Trunk]:
    """All runs share the lower part, and start from the same upper one."""
    cut = str(TrunkIdentity.model_validate_json(trunk).cut)
    return models.split(_frozen_trunk(trunk, weights), cut)


def _shared_trunk(spec: RunSpec, resources: Resources) -> models.Trunk:
    return _frozen_trunk(spec.trunk.model_dump_json(), resources.weights)


@lru_cache(maxsize=1)
def _frozen_trunk(trunk: str, weights: str) -> models.Trunk:
    """All runs share one frozen trunk; without weights it is the same random one for all of them."""
    return _create_trunk(TrunkIdentity.model_validate_json(trunk), weights, 0)


def _create_trunk(trunk: TrunkIdentity, weights: str, seed: int) -> models.Trunk:
    """The trunk of a run; refuses a file of weights that is not what the spec names."""
    named_by_content = trunk.weights.startswith("sha256:") and weights != "none"
    if named_by_content and models.weights_identity(weights) != trunk.weights:
        raise RunError(
            f"the weights {weights} have changed since the experiment began; give the same command again to "
            "begin with the new ones, or restore the file"
        )
    return models.create_trunk(trunk.name, weights=weights, seed=seed, **trunk.options)
