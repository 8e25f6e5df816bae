"""Replaced images are never mixed with old results, and images shared by development and test are refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.oracles import layouts

import levelfield as lf
from levelfield.core.errors import RunError, UsageError
from levelfield.protocol import resolve_experiment, run_protocol
from levelfield.records import Store, remembered_dataset_root


def values(dataset: dict[str, Any], **changes: Any) -> lf.Experiment:
    settings: dict[str, Any] = {
        "name": "changed",
        "dataset": dataset,
        "split": {"name": "class_disjoint", "folds": 2},
        "trunk": {"name": "conv4", "width": 4, "mode": "frozen"},
        "head": {"size": 8},
        "batch": {"size": 4, "samples_per_class": 2, "samples_per_class_classification": 2},
        "training": {"iterations_per_epoch": 1, "max_epochs": 1, "evaluate_every": 1, "patience": None},
        "methods": ["contrastive"],
        "search": {"trials": 1, "sampler": "random"},
        "confirm": {"reruns": 1, "gallery": 0},
        "engine": {"workers": 0},
    }
    return lf.Experiment.build(**settings | changes)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def feature_directories(cache: Path) -> set[str]:
    return {file.parent.name for file in cache.rglob("manifest.json")}


def test_replaced_images_of_a_benchmark_are_not_mixed_with_old_results(
    tmp_path: Path, own_cache: Path
) -> None:
    folder = layouts.cub200(tmp_path, classes=8, images=4)
    files = sorted((folder / "images").rglob("*.jpg"))
    for number, file in enumerate(files):
        layouts.draw_image(file, number, size=(32, 32))
    size = max(file.stat().st_size for file in files)
    for file in files:
        file.write_bytes(file.read_bytes().ljust(size, b"\0"))
    experiment = values({"name": "cub200", "root": str(folder)})
    run_protocol(experiment, tmp_path / "out", search_only=True)
    recorded = Store(tmp_path / "out").experiment_record().contents
    assert len(recorded) == 1 and remembered_dataset_root(tmp_path / "out") == folder
    before, ids = feature_directories(own_cache), {run.path.name for run in Store(tmp_path / "out").runs()}
    run_protocol(experiment, tmp_path / "out", search_only=True)  # nothing changed
    assert feature_directories(own_cache) == before
    one, other = files[0].read_bytes(), files[5].read_bytes()
    files[0].write_bytes(other)
    files[5].write_bytes(one)
    with pytest.raises(RunError, match=r"images of dataset cub200 have changed since .* was begun"):
        run_protocol(experiment, tmp_path / "out", search_only=True)
    run_protocol(experiment, tmp_path / "new", search_only=True)
    assert {run.path.name for run in Store(tmp_path / "new").runs()} == ids  # published identities stay
    assert not feature_directories(own_cache) <= before  # but no feature of the old images is used


def photos(root: Path) -> Path:
    for kind in range(8):
        for number in range(4):
            file = root / f"class{kind}" / f"{number}.png"
            layouts.draw_image(file, kind * 10 + number, size=(32, 32))
    return root


def test_an_image_in_development_and_test_is_refused_by_name(tmp_path: Path) -> None:
    root = photos(tmp_path / "photos")
    resolve_experiment(values({"name": "folder", "root": str(root)}))
    shutil.copy(root / "class0" / "1.png", root / "class7" / "copy.png")
    shared = r"1 development image is in the test set too.*: class0/1\.png = class7/copy\.png; remove one"
    with pytest.raises(UsageError, match=shared):
        resolve_experiment(values({"name": "folder", "root": str(root)}))
    allowed = values({"name": "folder", "root": str(root), "allow_shared_images": True})
    assert any("class0/1.png = class7/copy.png" in note for note in resolve_experiment(allowed).notes)
    assert "allow_shared_images" in allowed.model_dump(mode="json")["dataset"]


def test_the_same_pixels_in_another_file_are_left_to_the_check(tmp_path: Path) -> None:
    root = photos(tmp_path / "photos")
    Image.open(root / "class0" / "1.png").save(root / "class7" / "copy.bmp")
    resolve_experiment(values({"name": "folder", "root": str(root)}))
