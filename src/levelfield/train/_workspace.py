"""From a run's spec to what it needs: the development view, its inputs, the network.

The results are kept for the life of the process: a worker that carries out many runs loads once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from levelfield import models
from levelfield.data import transforms
from levelfield.data.views import DevelopmentView, open_development
from levelfield.errors import RunError
from levelfield.records import DataIdentity, RunFolder, RunResult, RunSpec
from levelfield.registry import load_plugin_file
from levelfield.seeds import seed_for
from levelfield.train._inputs import ImageInputs, Inputs
from levelfield.train._loop import FoldData, execute


@dataclass(frozen=True)
class Resources:
    """Where things lie on this machine, and how much of it a run may use. No part of an identity."""

    dataset_root: Path | None = None
    weights: str = "none"
    plugins: tuple[Path, ...] = ()
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
    spec = job.spec
    view = development(spec.data, job.resources)
    fold = view.folds[spec.fold]
    data = FoldData(
        inputs=image_inputs(view, spec),
        labels=view.dataset.labels,
        train=fold.train,
        validation=fold.validation,
    )
    embedder = build_embedder(spec, job.resources)
    return execute(spec, data, embedder, RunFolder(job.folder), device=job.resources.device)


def prepare_process(resources: Resources) -> None:
    """Load the user's plug-ins and bind the number of threads, which the bits of a sum depend on."""
    for plugin in resources.plugins:
        load_plugin_file(plugin)
    torch.set_num_threads(resources.threads)


def dataset_options(identity: DataIdentity, root: Path | None) -> dict[str, Any]:
    """What the dataset is created with: its own options, and where it lies."""
    return identity.options | ({} if root is None else {"root": root})


def development(identity: DataIdentity, resources: Resources) -> DevelopmentView:
    """The development view of the run's data; refuses data that is not what the spec names."""
    view = _open(
        identity.name,
        identity.split.name,
        json.dumps(identity.split.options, sort_keys=True),
        json.dumps(identity.options, sort_keys=True),
        resources.dataset_root,
    )
    if view.fingerprint != identity.fingerprint:
        raise RunError(
            f"dataset {identity.name} has changed since the experiment began (fingerprint "
            f"{view.fingerprint}, was {identity.fingerprint}); restore it, or begin with a new --out folder"
        )
    return view


@lru_cache(maxsize=4)
def _open(name: str, split: str, split_options: str, options: str, root: Path | None) -> DevelopmentView:
    given = json.loads(options) | ({} if root is None else {"root": root})
    return open_development(name, split=split, dataset_options=given, split_options=json.loads(split_options))


def image_inputs(view: DevelopmentView, spec: RunSpec) -> Inputs:
    """The view's images through the spec's transforms."""
    options = spec.transform.options
    return ImageInputs(
        view.dataset.images,
        train=transforms.create(spec.transform.name, train=True, **options),
        evaluate=transforms.create(spec.transform.name, train=False, **options),
    )


def build_embedder(spec: RunSpec, resources: Resources) -> models.Embedder:
    """The network as the run begins with it."""
    trunk = models.create_trunk(
        spec.trunk.name,
        weights=resources.weights,
        seed=seed_for(spec.seed, "trunk"),
        **spec.trunk.options,
    )
    return models.build(
        trunk=trunk,
        pooling=spec.head.pooling,
        head=spec.head.kind,
        size=spec.head.size,
        normalize=spec.head.normalize,
        freeze_bn=spec.trunk.bn_mode,  # type: ignore[arg-type]  # checked by the experiment's schema
        seed=seed_for(spec.seed, "head"),
    )
