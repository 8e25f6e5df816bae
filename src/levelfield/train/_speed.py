"""How fast runs of a spec would go here: a few real steps and one measurement, thrown away after."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from levelfield.data import Rows, transforms
from levelfield.data.views import DevelopmentView
from levelfield.models import Embedder
from levelfield.models.extraction import Extractor
from levelfield.records import RunFolder, RunSpec
from levelfield.seeds import torch_generator
from levelfield.train._inputs import FeatureInputs, Inputs
from levelfield.train._loop import FoldData, _Run
from levelfield.train._workspace import Resources, build_embedder, development, inputs_of, prepare_process

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
    feature = _seconds_per_feature(view, spec, embedder, sample) if spec.trunk.mode == "frozen" else 0.0
    data = FoldData(
        inputs=_inputs(view, spec, resources, embedder),
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
        feature=feature,
        weights=weights,
        state=state,
        feature_bytes=4 * embedder.trunk.num_features if spec.trunk.mode == "frozen" else 0,
    )


def _inputs(view: DevelopmentView, spec: RunSpec, resources: Resources, embedder: Embedder) -> Inputs:
    """The real inputs; for a frozen trunk random features, as real ones may take hours to compute."""
    if spec.trunk.mode == "frozen":
        generator = torch_generator("speed")
        return FeatureInputs(torch.rand(len(view.dataset), embedder.trunk.num_features, generator=generator))
    return inputs_of(view.dataset, spec, resources, train=True)


def _seconds_per_feature(view: DevelopmentView, spec: RunSpec, embedder: Embedder, rows: Rows) -> float:
    transform = transforms.create(spec.transform.name, train=False, **spec.transform.options)
    images = view.dataset.images

    def load(wanted: Rows) -> torch.Tensor:
        return transform([images.read(int(row)) for row in wanted], torch_generator("speed"))

    extractor = Extractor(embedder.eval(), threads=os.cpu_count())
    few = rows[: max(1, IMAGES // 8)]
    extractor.features(few, load)
    start = time.monotonic()
    extractor.features(few, load)
    return (time.monotonic() - start) / len(few)
