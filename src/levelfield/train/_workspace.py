"""From a run's spec to what it needs: the development view, its inputs, the network.

What many runs share is kept for the life of the process: a worker loads the data once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from levelfield import models
from levelfield.data import Dataset, cache_folder, transforms
from levelfield.data.views import DevelopmentView, open_development
from levelfield.errors import RunError
from levelfield.models.features import FeatureStore, cached_features, feature_identity
from levelfield.records import RunFolder, RunResult, RunSpec, feature_id
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
    identity, transform = spec.data, spec.transform
    options = json.dumps([identity.options, identity.split.options, transform.options], sort_keys=True)
    view = _open(identity.name, identity.split.name, transform.name, options, resources.dataset_root)
    if view.fingerprint != identity.fingerprint:
        raise RunError(
            f"dataset {identity.name} has changed since the experiment began (fingerprint "
            f"{view.fingerprint}, was {identity.fingerprint}); restore it, or begin with a new --out folder"
        )
    return view


@lru_cache(maxsize=4)
def _open(name: str, split: str, transform: str, options: str, root: Path | None) -> DevelopmentView:
    dataset_options, split_options, transform_options = json.loads(options)
    return open_development(
        name,
        dataset_options=dataset_options | ({} if root is None else {"root": root}),
        split=split,
        split_options=split_options,
        transform=transform,
        transform_options=transform_options,
    )


_features: dict[str, FeatureStore] = {}


def inputs_of(dataset: Dataset, spec: RunSpec, resources: Resources, *, train: bool) -> Inputs:
    """What the network is fed for ``dataset``: its images, or features of a frozen trunk."""
    if spec.trunk.mode == "frozen":
        embedder, options = _feature_maker(spec, resources, train=train)
        key = feature_id(feature_identity(embedder, dataset, **options))
        if key not in _features:  # checking the file takes longer than training a head
            _features[key] = trunk_features(dataset, spec, resources, train=train)
        store = _features[key]
        return FeatureInputs(store.all(), store.augmented() if store.views else None)
    options = spec.transform.options
    return ImageInputs(
        dataset.images,
        train=transforms.create(spec.transform.name, train=True, **options),
        evaluate=transforms.create(spec.transform.name, train=False, **options),
    )


def trunk_features(
    dataset: Dataset,
    spec: RunSpec,
    resources: Resources,
    *,
    train: bool,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FeatureStore:
    """Pooled features of ``dataset``, computed once and kept in the cache folder for all runs."""
    embedder, options = _feature_maker(spec, resources, train=train)
    return cached_features(
        cache_folder() / "features",
        embedder=embedder,
        dataset=dataset,
        threads=os.cpu_count(),
        progress=progress,
        **options,
    )


def _feature_maker(
    spec: RunSpec, resources: Resources, *, train: bool
) -> tuple[models.Embedder, dict[str, Any]]:
    """What computes a run's features: the network, and the options of the transform and its views."""
    embedder = build_embedder(spec, resources).to(resources.device).eval()
    return embedder, {
        "transform": spec.transform.name,
        "transform_options": spec.transform.options,
        "views": spec.trunk.views if train else 0,
    }


def build_embedder(spec: RunSpec, resources: Resources) -> models.Embedder:
    """The network as the run begins with it."""
    options: dict[str, Any] = {
        "pooling": spec.head.pooling,
        "head": spec.head.kind,
        "size": spec.head.size,
        "normalize": spec.head.normalize,
        "freeze_bn": spec.trunk.bn_mode,
        "seed": seed_for(spec.seed, "head"),
    }
    trunk_options = json.dumps(spec.trunk.options, sort_keys=True)
    if spec.trunk.mode == "frozen":
        return models.build(trunk=_frozen_trunk(spec.trunk.name, resources.weights, trunk_options), **options)
    seed = seed_for(spec.seed, "trunk")
    return models.build(
        trunk=_create_trunk(spec.trunk.name, resources.weights, trunk_options, seed), **options
    )


@lru_cache(maxsize=1)
def _frozen_trunk(name: str, weights: str, options: str) -> models.Trunk:
    """All runs share one frozen trunk; without weights it is the same random one for all of them."""
    return _create_trunk(name, weights, options, 0)


def _create_trunk(name: str, weights: str, options: str, seed: int) -> models.Trunk:
    return models.create_trunk(name, weights=weights, seed=seed, **json.loads(options))
