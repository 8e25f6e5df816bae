"""Splits of growing shift: classes change sides until train and test have little in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import linalg

from levelfield import data
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.data.shift import frechet_distance, make_shifted_splits


def world(seed: int = 0, classes: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), 5)
    features = generator.normal(size=(classes, 3))[labels] * 3 + generator.normal(size=(len(labels), 3))
    return features, labels, labels >= classes // 2


def test_every_level_is_further_apart_and_keeps_classes_whole() -> None:
    features, labels, is_test = world()
    found = make_shifted_splits(features, labels, is_test, levels=3)
    distances = [shift.distance for shift in found]
    assert distances == sorted(distances) and distances[-1] > 1.5 * distances[0]
    assert (found[0].is_test == is_test).all() and found[0].swaps == 0
    for shift in found:
        sides = {bool(side) for number in range(20) for side in [shift.is_test[labels == number].mean()]}
        assert sides == {False, True}, "no class lies on both"
        assert len(set(labels[shift.is_test])) == 10


def test_the_distance_is_frechets() -> None:
    features, _, is_test = world(1)
    one, other = features[~is_test], features[is_test]
    first, second = np.cov(one.T), np.cov(other.T)
    half = linalg.sqrtm(first)
    middle = linalg.sqrtm(half @ second @ half)
    expected = ((one.mean(0) - other.mean(0)) ** 2).sum() + np.trace(first + second - 2 * middle.real)
    assert frechet_distance(features, is_test) == pytest.approx(expected, rel=1e-9)


def test_bad_input() -> None:
    features, labels, is_test = world()
    with pytest.raises(UsageError, match="one side"):
        make_shifted_splits(features, labels, np.arange(len(labels)) % 2 == 0, levels=2)
    with pytest.raises(UsageError, match="at most"):
        make_shifted_splits(features, labels, is_test, levels=500)


def test_the_lists_are_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    lines = ["path,label,split"]
    for number in range(8):
        color = generator.integers(0, 256, 3)
        for copy in range(3):
            noise = generator.integers(0, 20, (24, 24, 3))
            pixels = np.clip(color + noise, 0, 255).astype(np.uint8)
            name = f"{number}-{copy}.png"
            Image.fromarray(pixels).save(tmp_path / name)
            lines.append(f"{name},class {number},{'test' if number >= 4 else 'train'}")
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    command = ["data", "shift", "csv", "--set", f"file={tmp_path / 'all.csv'}", "--levels", "1", "--quiet"]
    command += ["--trunk", "conv4", "--weights", "none", "--transform", "none", "-o", str(tmp_path / "out")]
    assert run_app(command) == 0
    assert "Frechet distance" in capsys.readouterr().out
    moved = data.load("csv", file=str(tmp_path / "out" / "level-1.csv"), root=str(tmp_path))
    assert len(moved) == 24 and moved.is_test is not None and moved.is_test.sum() == 12


def test_a_class_with_two_names_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    towers = generator.integers(0, 256, (4, 24, 24, 3))
    lines = ["path,label,split"]
    sides = {"tower": (0, "train"), "bridge": (1, "train"), "gate": (2, "test"), "the tower": (0, "test")}
    for name, (looks, side) in sides.items():
        for copy in range(6):
            pixels = np.clip(towers[looks] + generator.integers(-40, 40, (24, 24, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{name}-{copy}.png")
            lines.append(f"{name}-{copy}.png,{name},{side}")
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    command = ["data", "overlap", "csv", "--set", f"file={tmp_path / 'all.csv'}", "--quiet", "--share", "0.3"]
    command += ["--trunk", "conv4", "--weights", "none", "--transform", "none", "-o", str(tmp_path / "c.csv")]
    assert run_app(command) == 1
    said = capsys.readouterr().out
    assert "the tower (test) resembles tower (train)" in said and "gate" not in said
    clean = data.load("csv", file=str(tmp_path / "c.csv"), root=str(tmp_path))
    assert set(clean.class_names) == {"bridge", "gate", "the tower"}
