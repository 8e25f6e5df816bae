"""Speed of a run on this machine, from a few real steps and one evaluation that are discarded."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from levelfield.core.seeds import torch_generator
from levelfield.data import Rows, transforms
from levelfield.data.views import DevelopmentView
from levelfield.models.extraction import FeatureExtractor
from levelfield.models.features import bytes_per_image
from levelfield.records import RunDirectory, RunSpec
from levelfield.train._inputs import Inputs, Stream
from levelfield.train._loop import FoldData, _Run
from levelfield.train._setup import (
    Resources,
    build_embedder,
    create_feature_source,
    create_inputs,
    load_development_view,
    prepare_process,
    uses_cached_features,
)

STEPS = 3
IMAGES = 256


@dataclass(frozen=True)
class Speed:
    """Cost of a run: seconds, and bytes on disk.

    Attributes:
        step: Seconds of one training step.
        steps: Training steps of an epoch.
        evaluation: Seconds of one evaluation on the validation classes, with writing.
        image: Seconds to embed one image.
        feature: Seconds to compute the cached features of one image; 0 without cached features.
        weights: Bytes of a finished run.
        state: Additional bytes of an unfinished run.
        feature_bytes: Bytes of one image's cached features; 0 without cached features.
    """

    step: float
    steps: int
    evaluation: float
    image: float
    feature: float
    weights: int
    state: int
    feature_bytes: int


def measure_speed(spec: RunSpec, resources: Resources) -> Speed:
    """Return the speed of ``STEPS`` steps after a warm-up, and of evaluating at most ``IMAGES`` images."""
    prepare_process(resources)
    view = load_development_view(spec, resources)
    fold = view.folds[spec.fold]
    sample = fold.validation[:IMAGES]
    embedder = build_embedder(spec, resources)
    kept = _measure_features(view, spec, resources, sample) if uses_cached_features(spec) else None
    # Two epochs are measured; a run that is over saves no state.
    length = {"iterations_per_epoch": STEPS, "max_epochs": 3, "patience": None}
    short = spec.model_copy(update={"training": spec.training.model_copy(update=length)})
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(_inputs(view, spec, resources, kept)) as inputs,
    ):
        data = FoldData(inputs, view.dataset.labels, train=fold.train, validation=sample)
        run = _Run(short, data, embedder, RunDirectory(Path(directory)), resources.device)
        times = []
        for epoch in (1, 2):
            run.epoch, start = epoch, time.monotonic()
            run._train_epoch()
            times.append(time.monotonic() - start)
        start = time.monotonic()
        run._evaluate(None)
        evaluation = time.monotonic() - start
        weights, state = (Path(directory, name).stat().st_size for name in ("best.safetensors", "state.pt"))
    return Speed(
        step=times[-1] / STEPS,
        steps=spec.training.iterations_per_epoch or max(1, len(fold.train) // spec.batch.size),
        evaluation=evaluation * len(fold.validation) / len(sample),
        image=evaluation / len(sample),
        feature=kept.seconds if kept else 0.0,
        weights=weights,
        state=state,
        feature_bytes=kept.bytes if kept else 0,
    )


@dataclass(frozen=True)
class _SampleFeatures:
    """Outputs of a frozen network for some images, and the cost of one image."""

    sample: torch.Tensor
    seconds: float
    bytes: int


class _RepeatedInputs:
    """Inputs that repeat the features of a few images."""

    def __init__(self, sample: torch.Tensor) -> None:
        self._sample = sample

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[torch.Tensor]:
        return self.evaluate(plan)

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[torch.Tensor]:
        return (self._sample[torch.from_numpy(rows) % len(self._sample)] for rows in plan)

    def close(self) -> None:
        pass


def _inputs(
    view: DevelopmentView, spec: RunSpec, resources: Resources, kept: _SampleFeatures | None
) -> Inputs:
    """Return the inputs of the run; cached features are replaced by those of a few images, to save hours."""
    if kept is None:
        return create_inputs(view.dataset, spec, resources, train=True)
    return _RepeatedInputs(kept.sample)


def _measure_features(
    view: DevelopmentView, spec: RunSpec, resources: Resources, rows: Rows
) -> _SampleFeatures:
    transform = transforms.create(spec.transform.name, train=False, **spec.transform.options)
    images = view.dataset.images

    def load(wanted: Rows) -> torch.Tensor:
        return transform([images.read(int(row)) for row in wanted], torch_generator("speed"))

    source, _ = create_feature_source(spec, resources, train=True)
    extractor = FeatureExtractor(source, threads=os.cpu_count())
    few = rows[: max(1, IMAGES // 8)]
    extractor.features(few, load)
    start = time.monotonic()
    sample = extractor.features(few, load)
    seconds = (time.monotonic() - start) / len(few)
    return _SampleFeatures(sample, seconds, bytes_per_image(source, tuple(sample.shape[1:])))
