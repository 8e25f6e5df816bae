"""``levelfield new`` writes valid experiment files and asks at most three questions."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from PIL import Image

from levelfield.api.starter import EFFORTS, TRACKERS
from levelfield.cli._app import run_app
from levelfield.config import Experiment
from levelfield.protocol import resolve_experiment


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "my photos"
    for number in range(12):
        (root / f"kind {number}").mkdir(parents=True)
        for copy in range(4):
            Image.new("RGB", (40, 30), (number * 20, copy * 60, 9)).save(
                root / f"kind {number}" / f"{copy}.jpg"
            )
    return root


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("track", ["none", *TRACKERS])
def test_written_files_are_valid(photos: Path, effort: str, track: str) -> None:
    arguments = ["--photos", str(photos), "--effort", effort, "--track", track]
    assert run_app(["new", "mine", *arguments]) == 0
    experiment = Experiment.load("mine.yaml")
    assert experiment.search.trials == EFFORTS[effort].trials
    assert [spec.name for spec in experiment.track] == ([] if track == "none" else [track])
    resolved = resolve_experiment(experiment)
    assert len(resolved.methods) == (len(EFFORTS[effort].methods) or 14)


def test_without_photos_it_uses_glyphs() -> None:
    assert run_app(["new", "first"]) == 0
    experiment = Experiment.load("first.yaml")
    assert experiment.dataset.name == "glyphs"
    assert len(resolve_experiment(experiment).methods) == 3


def test_at_most_three_questions(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = iter([str(photos), "normal", "tensorboard"])

    def prompt(text: str, default: str = "") -> str:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert run_app(["new", "mine"]) == 0
    assert len(asked) == 3
    assert Experiment.load("mine.yaml").track[0].name == "tensorboard"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "../x"], "is not a valid experiment name"),
        (["new", "x", "--effort", "quik"], 'did you mean "quick"'),
        (["new", "x", "--track", "mlflo"], 'did you mean "mlflow"'),
        (["new", "x", "--photos", "nowhere"], "is not a folder"),
    ],
)
def test_wrong_answers_are_reported(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_app(arguments) == 2
    assert message in capsys.readouterr().err
    assert not Path("x.yaml").exists()


def test_nothing_is_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("mine")
    assert run_app(["new", "mine"]) == 2
    assert Path("mine.yaml").read_text() == "mine"


def test_too_few_classes_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(7):
        assert number < 2 or run_app(["new", "mine", "--photos", "few"]) == 2
        for copy in range(3):
            (tmp_path / "few" / f"kind {number}").mkdir(parents=True, exist_ok=True)
            image = Image.new("RGB", (8, 8), (40 * number, 20 * copy, 0))
            image.save(tmp_path / "few" / f"kind {number}" / f"{copy}.png")
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert len(errors) == 5 and all("needs 7 or more" in line for line in errors)
    assert "holds 2 classes" in errors[0]
    assert run_app(["new", "mine", "--photos", "few"]) == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda root: (root / "kind 3" / "1.jpg").write_bytes(b"no image"), "1 image cannot be read"),
        (lambda root: [(root / "kind 3" / f"{n}.jpg").unlink() for n in (1, 2, 3)], "2 images (kind 3)"),
        (lambda root: (root / "empty").mkdir(), "empty has no images; remove it"),
        (
            lambda root: [
                shutil.copy(root / "kind 0" / "0.jpg", root / f"kind {n}" / "copy.jpg") for n in range(1, 12)
            ],
            "same",
        ),
    ],
    ids=["unreadable", "single image", "empty", "copies in other classes"],
)
def test_no_file_is_written_that_cannot_run(
    spoil: Callable[[Path], object], message: str, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(photos)
    assert run_app(["new", "mine", "--photos", str(photos)]) == 2
    assert message in capsys.readouterr().err
    assert not Path("mine.yaml").exists()


@pytest.mark.parametrize("layout", ["other classes", "same classes", "with validation"])
def test_folders_that_are_split_already_stay_so(layout: str, tmp_path: Path) -> None:
    parts = ("train", "val", "test") if layout == "with validation" else ("train", "test")
    for number in range(12):
        for copy in range(8):
            part = parts[(number if layout == "other classes" else copy) % len(parts)]
            (tmp_path / "split" / part / f"kind {number}").mkdir(parents=True, exist_ok=True)
            image = Image.new("RGB", (40, 30), (number * 20, copy * 30, 9))
            image.save(tmp_path / "split" / part / f"kind {number}" / f"{copy}.jpg")
    assert run_app(["new", "mine", "--photos", "split"]) == 0
    experiment = Experiment.load("mine.yaml")
    assert experiment.dataset.options["layout"] == "splits"
    expected = {
        "other classes": "class_disjoint",
        "same classes": "closed_set",
        "with validation": "predefined",
    }
    assert experiment.split.name == expected[layout]
