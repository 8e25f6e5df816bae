"""Jobs that train a run, and the base of all jobs that use a run's data on any machine."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from levelfield.core.errors import LevelfieldError
from levelfield.core.files import cache_directory
from levelfield.records import STATE_FILE, RunDirectory, RunResult, RunSpec
from levelfield.train._loop import FoldData, train_run
from levelfield.train._setup import (
    PluginFile,
    Resources,
    build_embedder,
    create_inputs,
    load_development_view,
    prepare_process,
)

FetchAttachment = Callable[[str, Path], Path]  # as in levelfield.engine.PortableJob
DATASET, WEIGHTS = "dataset", "weights"  # names of attachments


class DataJob(ABC):
    """Base of frozen dataclasses with ``resources``: makes them a :class:`levelfield.engine.PortableJob`.

    Plug-ins are sent with the job. Dataset and weights are sent only to a machine that lacks them.
    """

    checkpoint_file: ClassVar[str] = STATE_FILE
    result_file: ClassVar[str] = "result.json"
    resources: Resources

    @property
    @abstractmethod
    def data_spec(self) -> RunSpec:
        """A run with the dataset and the weights of this job."""

    def plugin_files(self) -> Mapping[str, Path]:
        """Return the paths of the user's plug-in files by digest."""
        return {plugin.digest: plugin.path for plugin in self.resources.plugins}

    def attachments(self) -> Mapping[str, Path]:
        """Return the paths of the dataset and of the weights file, as far as they are set."""
        found = {WEIGHTS: Path(self.resources.weights)}
        root = self.resources.dataset_root
        return found if root is None else found | {DATASET: root}

    def localize(self, plugins: Mapping[str, Path], fetch: FetchAttachment) -> Any:
        """Return the job with plug-ins, dataset and weights of this machine."""
        resources = replace(
            self.resources,
            plugins=tuple(PluginFile(plugins[each.digest], each.digest) for each in self.resources.plugins),
            weights=_local_weights(self.resources.weights, self.data_spec, fetch),
        )
        prepare_process(resources)  # a plug-in may register the dataset
        root = _local_dataset_root(resources, self.data_spec, fetch)
        # mypy cannot see that the protocol's only implementation is a dataclass
        return replace(self, resources=replace(resources, dataset_root=root))  # type: ignore[type-var]


@dataclass(frozen=True)
class RunJob(DataJob):
    """One run to train. It can be pickled.

    Attributes:
        spec: The run.
        resources: Local paths, and limits of the machine.
        directory: The run's directory.
    """

    spec: RunSpec
    resources: Resources
    directory: Path

    @property
    def data_spec(self) -> RunSpec:
        """The run itself."""
        return self.spec


def run_job(job: RunJob) -> RunResult:
    """Train one run in this process; return the recorded result if the run is finished."""
    prepare_process(job.resources)
    done = RunDirectory(job.directory).result()
    if done is not None:
        return done  # without loading any data
    view = load_development_view(job.spec, job.resources)
    fold = view.folds[job.spec.fold]
    embedder = build_embedder(job.spec, job.resources)
    with closing(create_inputs(view.dataset, job.spec, job.resources, train=True)) as inputs:
        data = FoldData(inputs, view.dataset.labels, train=fold.train, validation=fold.validation)
        return train_run(job.spec, data, embedder, RunDirectory(job.directory), device=job.resources.device)


def root_variable(dataset: str) -> str:
    """Return the environment variable with the path of a dataset on a machine.

    Example:
        >>> root_variable("cub200"), root_variable("hf:user/set")
        ('LEVELFIELD_ROOT_CUB200', 'LEVELFIELD_ROOT_HF_USER_SET')
    """
    return f"LEVELFIELD_ROOT_{re.sub('[^A-Za-z0-9]+', '_', dataset).upper()}"


def _local_dataset_root(resources: Resources, spec: RunSpec, fetch: FetchAttachment) -> Path | None:
    """Return the path of the dataset on this machine; fetch it unless one with the fingerprint exists."""
    given = os.environ.get(root_variable(spec.data.name))
    if given is None and resources.dataset_root is None:
        return None
    local = Path(given) if given is not None else resources.dataset_root
    if local is not None and local.exists() and _has_dataset(local, resources, spec):
        return local
    name = hashlib.sha256(f"{spec.data.fingerprint} {resources.dataset_content}".encode()).hexdigest()[:16]
    return fetch(DATASET, cache_directory() / "datasets" / name)


def _has_dataset(root: Path, resources: Resources, spec: RunSpec) -> bool:
    """Return True if ``root`` holds the dataset of a run, by its fingerprint; the opened view is kept."""
    try:
        load_development_view(spec, replace(resources, dataset_root=root))
    except LevelfieldError:  # another version of the dataset, or other files
        return False
    return True


def _local_weights(weights: str, spec: RunSpec, fetch: FetchAttachment) -> str:
    """Return the path of the weights file on this machine; public names stay as they are."""
    if not spec.trunk.weights.startswith("sha256:") or Path(weights).is_file():
        return weights
    copy = cache_directory() / "weights" / spec.trunk.weights.removeprefix("sha256:")
    return str(fetch(WEIGHTS, copy) / Path(weights).name)
