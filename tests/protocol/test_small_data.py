"""Few classes: presets adapt and report it; otherwise errors name the key to set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.oracles.layouts import draw_image

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.config import TrunkSpec
from levelfield.core.errors import UsageError
from levelfield.protocol import plan, resolve_experiment
from levelfield.reports import result_warnings

BATCH = {"size": 24, "samples_per_class": 2, "samples_per_class_classification": 1}


def experiment(tiny: dict[str, Any], **batch: Any) -> lf.Experiment:
    """A fold has 6 training classes, and batches need 12 or 24."""
    return lf.Experiment.build(**{**tiny, "batch": {**BATCH, **batch}})


def test_samples_per_class_adapt_to_the_classes_there_are(tiny: dict[str, Any]) -> None:
    resolved = resolve_experiment(experiment(tiny, adapt=True))
    assert [method.resolve_samples_per_class(resolved.experiment.batch) for method in resolved.methods] == [
        4,
        4,
        4,
    ]
    few = "because the smallest training fold has 6 classes."
    assert resolved.notes == (
        f"contrastive: batches hold 4 samples per class instead of 2, {few}",
        f"triplet: batches hold 4 samples per class instead of 2, {few}",
        f"normalized_softmax: batches hold 4 samples per class instead of 1, {few}",
    )


def test_folds_with_one_class_to_validate_on_become_fewer(tiny: dict[str, Any]) -> None:
    """Among images of one class every method is perfect, so the untrained network would be kept."""
    asked = {**tiny, "split": {"name": "class_disjoint", "folds": 9}, "methods": ["triplet"]}
    resolved = resolve_experiment(lf.Experiment.build(**{**asked, "batch": {**BATCH, "adapt": True}}))
    assert resolved.num_folds == resolved.experiment.split.options["folds"] < 9
    assert resolved.notes[0].startswith(f"{resolved.num_folds} folds instead of 9: ")
    with pytest.raises(UsageError, match=r"one class to validate on.*set split\.folds lower"):
        resolve_experiment(lf.Experiment.build(**{**asked, "batch": {"size": 8, "samples_per_class": 2}}))


def test_a_fitted_head_has_no_more_dimensions_than_the_images_span(tiny: dict[str, Any]) -> None:
    values = {**tiny, "head": {"size": 5000, "init": "pca"}}
    resolved = resolve_experiment(experiment(values, adapt=True))
    size = resolved.experiment.head.size
    assert size < 5000 and not resolved.random_start
    assert resolved.notes[0] == (
        f"embeddings have {size} dimensions instead of 5000: the smallest training fold has {size + 1} "
        "images, which span no more."
    )
    old = resolve_experiment(experiment(values, adapt=True), recorded=True)
    assert old.experiment.head.size == 5000 and old.random_start  # its runs were trained with this size
    again = resolve_experiment(resolved.experiment)
    assert again.experiment.head == resolved.experiment.head and "dimensions" not in str(again.notes)
    random = resolve_experiment(experiment({**values, "head": {"size": 5000}}, adapt=True))
    assert random.experiment.head.size == 5000


def test_a_plan_says_what_will_be_adapted(tiny: dict[str, Any], tmp_path: Path) -> None:
    found = plan(experiment(tiny, adapt=True), tmp_path / "out")
    assert "batches hold 4 samples per class" in found.notes[0]
    assert re.match(
        r"toy_images, class_disjoint, 2 folds: train \d+ .* test \d+ images of \d+ classes", found.data
    )


@pytest.mark.slow
def test_what_was_adapted_is_in_the_report(tiny: dict[str, Any], tmp_path: Path) -> None:
    values = {**tiny, "batch": {**BATCH, "adapt": True}, "methods": ["triplet"], "search": {"trials": 1}}
    root = lf.run(lf.Experiment.build(**values), tmp_path / "out").path
    assert any(
        "triplet: batches hold 4 samples per class" in line for line in result_warnings(read_comparison(root))
    )


def test_an_adapted_run_is_the_run_that_says_so_itself(tiny: dict[str, Any]) -> None:
    adapted, explicit = (
        resolve_experiment(experiment(tiny, **options))
        for options in (
            {"adapt": True},
            {"samples_per_class": 4, "samples_per_class_classification": 4},
        )
    )
    for one, other in zip(adapted.methods, explicit.methods, strict=True):
        specs = [r.run_spec(m, {}, fold=0, seed=0) for r, m in ((adapted, one), (explicit, other))]
        assert specs[0].recipe == specs[1].recipe


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("triplet", "batch.samples_per_class to 4"),
        ("normalized_softmax", "batch.samples_per_class_classification to 4"),
        ({"name": "triplet", "samples_per_class": 2}, "methods: samples_per_class to 4"),
    ],
)
def test_without_adapting_the_error_names_the_key_to_set(method: Any, key: str, tiny: dict[str, Any]) -> None:
    values = {**tiny, "batch": BATCH, "methods": [method]}
    with pytest.raises(
        UsageError, match=rf"needs .* classes, .*; set {key}, or batch.adapt to true"
    ) as caught:
        resolve_experiment(lf.Experiment.build(**values))
    assert "\n" not in str(caught.value)


def test_batches_that_nothing_can_fill_are_refused(tiny: dict[str, Any]) -> None:
    values = {**tiny, "batch": {"size": 23, "samples_per_class": 1, "adapt": True}, "methods": ["arcface"]}
    resolve_experiment(lf.Experiment.build(**values))  # 23 samples of one class: unusual but possible
    with pytest.raises(UsageError, match=r"set batch\.size to a number"):
        resolve_experiment(
            lf.Experiment.build(**{**values, "batch": {"size": 9, "samples_per_class_classification": 10}})
        )


def test_a_preset_for_gray_images_says_so_to_photos(tmp_path: Path) -> None:
    for number in range(8):
        for copy in range(3):
            draw_image(tmp_path / f"kind {number}" / f"{copy}.png", 3 * number + copy)
    photos = lf.Experiment.build(name="x", preset="demo", dataset={"name": "folder", "root": str(tmp_path)})
    with pytest.raises(UsageError, match=r"images have 3 channels, .* takes 1.*`preset: laptop`"):
        resolve_experiment(photos)
    trunk = {"name": "conv4", "in_channels": 3}
    assert resolve_experiment(photos.model_copy(update={"trunk": TrunkSpec(**trunk)})).num_folds == 2


@pytest.mark.parametrize("preset", ["laptop", "laptop-tail", "demo"])
def test_presets_for_everyone_adapt(preset: str) -> None:
    assert lf.Experiment.build(name="mine", preset=preset).batch.adapt
