"""How fast runs of a spec would go here: a few real steps and one measurement, thrown away after."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from levelfield.data import Rows, transforms
from levelfield.data.views import DevelopmentView
from levelfield.models.extraction import Extractor
from levelfield.models.features import kept_bytes
from levelfield.records import RunFolder, RunSpec
from levelfield.seeds import torch_generator
from levelfield.train._inputs import Inputs, Stream
from levelfield.train._loop import FoldData, _Run
from levelfield.train._workspace import (
    Resources,
    build_embedder,
    development,
    feature_source,
    inputs_of,
    learns_from_features,
    prepare_process,
)

STEPS = 3
IMAGES = 256


@dataclass(frozen=True)
class Speed:
    """Seconds, and bytes on the disk.

    Attributes:
        step: One training step.
        steps: Training steps of an epoch.
        evaluation: One measurement on the validation classes, with what it writes.
        image: The embedding of one image.
        feature: The trunk's features of one image, which a frozen trunk computes once; else 0.
        weights: Bytes that a finished run keeps.
        state: Bytes that an unfinished run keeps besides.
        feature_bytes: Bytes of one image's kept features; else 0.
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
    """Train ``STEPS`` steps after as many to warm up, and measure once on at most ``IMAGES`` images."""
    prepare_process(resources)
    view = development(spec, resources)
    fold = view.folds[spec.fold]
    sample = fold.validation[:IMAGES]
    embedder = build_embedder(spec, resources)
    kept = _kept_features(view, spec, resources, sample) if learns_from_features(spec) else None
    data = FoldData(
        inputs=_inputs(view, spec, resources, kept),
        labels=view.dataset.labels,
        train=fold.train,
        validation=sample,
    )
    short = spec.model_copy(
        update={"training": spec.training.model_copy(update={"iterations_per_epoch": STEPS})}
    )
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(short, data, embedder, RunFolder(Path(folder)), resources.device)
        times = []
        for epoch in (1, 2):
            run.epoch, start = epoch, time.monotonic()
            run._train_epoch()
            times.append(time.monotonic() - start)
        start = time.monotonic()
        run._measure(None)
        evaluation = time.monotonic() - start
        weights, state = (Path(folder, name).stat().st_size for name in ("best.safetensors", "state.pt"))
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
class _KeptFeatures:
    """What a frozen network gives for some images, and what one of them costs."""

    sample: torch.Tensor
    seconds: float
    bytes: int


class _Repeated:
    """The features of a few images in place of those of all."""

    def __init__(self, sample: torch.Tensor) -> None:
        self._sample = sample

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[torch.Tensor]:
        return self.evaluate(plan)

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[torch.Tensor]:
        return (self._sample[torch.from_numpy(rows) % len(self._sample)] for rows in plan)


def _inputs(view: DevelopmentView, spec: RunSpec, resources: Resources, kept: _KeptFeatures | None) -> Inputs:
    """The real inputs; where features are kept, those of a few images: all of them may take hours."""
    if kept is None:
        return inputs_of(view.dataset, spec, resources, train=True)
    return _Repeated(kept.sample)


def _kept_features(view: DevelopmentView, spec: RunSpec, resources: Resources, rows: Rows) -> _KeptFeatures:
    transform = transforms.create(spec.transform.name, train=False, **spec.transform.options)
    images = view.dataset.images

    def load(wanted: Rows) -> torch.Tensor:
        return transform([images.read(int(row)) for row in wanted], torch_generator("speed"))

    source, _ = feature_source(spec, resources, train=True)
    extractor = Extractor(source, threads=os.cpu_count())
    few = rows[: max(1, IMAGES // 8)]
    extractor.features(few, load)
    start = time.monotonic()
    sample = extractor.features(few, load)
    seconds = (time.monotonic() - start) / len(few)
    return _KeptFeatures(sample, seconds, kept_bytes(source, tuple(sample.shape[1:])))
