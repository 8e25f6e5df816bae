"""Gain of a trained head for each model, by the protocol of the preset ``laptop``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.analysis import TrainedHead, analyze
from levelfield.api._run import run
from levelfield.api.choice._encoders import Encoder
from levelfield.api.choice._images import ChoiceImages
from levelfield.config import Experiment
from levelfield.core.errors import LevelfieldError

METHOD = "multi_similarity"  # one method: the best of several would look better than it is
RERUNS = 3
CLASSES_FOR_FOUR_FOLDS = 8  # classes besides those of the test


def train_heads(
    encoders: Mapping[str, Encoder], images: ChoiceImages, directory: Path, *, trials: int, metric: str
) -> tuple[dict[str, TrainedHead], dict[str, str]]:
    """Run one experiment per model, and return its effect, and the reason for each model that has none.

    Work that the directory already holds is not repeated.
    """
    heads: dict[str, TrainedHead] = {}
    failed: dict[str, str] = {}
    for name, encoder in encoders.items():
        try:
            heads[name] = _train(encoder, images, directory, trials=trials, metric=metric)
        except LevelfieldError as error:
            reason = " ".join(str(error).split())
            failed[f"{name}, trained head"] = f"{name} has no trained head: {reason}"
    return heads, failed


def _train(
    encoder: Encoder, images: ChoiceImages, directory: Path, *, trials: int, metric: str
) -> TrainedHead:
    from levelfield.core.errors import UsageError

    if encoder.trunk is None:
        raise UsageError("it is not a trunk with weights; register it as one, see docs/models.md")
    if images.fitted is None:
        raise UsageError("there are no images of other classes to train on")
    trunk, weights = encoder.trunk
    folder = directory / re.sub(r"[^A-Za-z0-9._-]+", "-", encoder.name).strip("-.")
    experiment = Experiment.build(
        name=folder.name[:200],
        preset="laptop",
        dataset=images.spec,
        split=_split(images),
        trunk={"name": trunk, "weights": weights, "mode": "frozen"},
        transform={"name": encoder.transform, **encoder.transform_options},
        training={"metric": metric},
        metrics=list(dict.fromkeys((metric, "precision_at_1", "map_at_r"))),
        methods=[METHOD],
        search={"trials": trials},
        confirm={"reruns": RERUNS, "gallery": 0},
    )
    run(experiment, folder)
    found = analyze(folder, metric=metric)
    baseline = found.comparison.baseline
    pair = next((p for p in found.pairs if {p.first, p.second} == {METHOD, baseline}), None)
    if pair is None or METHOD not in found.means:
        raise UsageError(f"the experiment has no test scores; see {folder}")
    verdict: str = pair.verdict if pair.first == METHOD else pair.judged.swapped().verdict
    return TrainedHead(
        method=METHOD,
        pretrained=found.means[baseline],
        trained=found.means[METHOD],
        verdict=verdict,
        directory=str(folder),
    )


def _split(images: ChoiceImages) -> dict[str, Any]:
    classes = 0 if images.fitted is None else len(np.unique(images.fitted.labels))
    folds = 4 if classes >= CLASSES_FOR_FOUR_FOLDS else 2
    # the preset would cut an official test set
    return {"name": "class_disjoint", "folds": folds, "test_fraction": None if images.official else 0.5}
