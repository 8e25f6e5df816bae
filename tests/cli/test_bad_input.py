"""Bad input gets one line with the remedy and the right exit code, and loses nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from levelfield.cli._app import run_app
from levelfield.core import files
from levelfield.core.errors import RunError


@pytest.fixture
def file(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    return write(tmp_path, tiny)


def write(directory: Path, values: dict[str, Any]) -> Path:
    path = directory / "tiny.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def fails(capsys: pytest.CaptureFixture[str], arguments: list[str], *, code: int) -> str:
    """Run a command that must fail; return its one-line error."""
    assert run_app(arguments) == code
    captured = capsys.readouterr()
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    assert "Traceback" not in captured.err
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["rnu"], 'has no verb "rnu"; did you mean "run"?'),
        (["data", "prepaer"], 'has no verb "prepaer"; did you mean "prepare"?'),
        (["study", "nothing"], "choose from metrics-on-random"),
        (["run", "x.yaml", "--sett", "a=1"], 'has no option --sett; did you mean "--set"?'),
        (["--verson"], 'has no option --verson; did you mean "--version"?'),
        (["run"], "Missing argument"),
        (["run", "a.yaml", "b.yaml"], "unexpected extra argument"),
    ],
)
def test_an_unknown_command_gets_the_nearest_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    line = fails(capsys, arguments, code=2)
    assert expected in line
    assert "--help" in line


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("methods=[tripelt]", 'unknown method "tripelt"; did you mean "triplet"?'),
        ("methods=[{name: triplet, set: {margin: 1000}}]", "margin = 1000 is outside its range"),
        (
            "methods=[{name: triplet, set: {marign: 0.1}}]",
            'no hyperparameter "marign"; did you mean "margin"?',
        ),
        ("methods=[{name: triplet, space: {margin: [1, 0]}}]", "low <= high"),
        ("methods=[{name: x, loss: triplet, miner: semihrad}]", 'did you mean "semihard"?'),
        ("methods=[{name: normalized_softmax, miner: semihard}]", "takes no tuples"),
        ("dataset={name: glyhps}", 'unknown dataset "glyhps"; did you mean "glyphs"?'),
        ("dataset={name: toy_images, clases: 5}", 'no parameter "clases"; did you mean "classes"?'),
        ("dataset={name: toy_images, classes: 2}", "folds"),
        ("dataset={name: toy_images, samples: 1}", "fewer than 2 images"),
        ("split={name: class_disjoint, folds: 40}", "cannot make 40 folds"),
        ("split={name: none}", "allow_test_feedback"),
        ("trunk={name: conv5}", "conv4"),
        ("transform={name: nome}", 'did you mean "none"?'),
        ("training.metric=map_at_rr", "map_at_r"),
        ("batch.size=600", "classes"),
        ("plugins=[nowhere.py]", "does not exist"),
        ("search.trials=none", "search.trials"),
    ],
)
def test_wrong_usage_is_found_before_anything_runs(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str, expected: str
) -> None:
    arguments = ["run", str(file), "--out", str(tmp_path / "out"), "--set", override]
    assert expected in fails(capsys, arguments, code=2)
    assert not (tmp_path / "out" / "runs").exists()


def test_wrong_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not exist" in fails(capsys, ["run", str(tmp_path / "no.yaml")], code=2)
    assert "no levelfield experiment" in fails(capsys, ["report", str(tmp_path)], code=2)
    assert "unknown kind" in fails(capsys, ["ls", "losess"], code=2)
    assert "ls cuts needs a trunk" in fails(capsys, ["ls", "cuts"], code=2)
    assert "timm has no network" in fails(capsys, ["ls", "cuts", "timm:resnt50"], code=2)


def test_a_directory_of_an_older_schema(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "schema.json").write_text('{"schema_version": 0}')
    line = fails(capsys, ["run", str(file), "--out", str(out), "--quiet"], code=1)
    assert "schema 0" in line and "--out" in line


@pytest.mark.slow
def test_a_run_directory_of_an_older_schema(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_app(["run", str(file), "--out", str(out), "--quiet", "--set", "methods=[triplet]"]) == 0
    run = next((out / "runs").iterdir())
    spec = json.loads((run / "spec.json").read_text())
    (run / "spec.json").write_text(json.dumps(spec | {"schema_version": 0}))
    (run / "result.json").unlink()
    trial = next((out / "searches").rglob("trial-0000.json"))
    trial.unlink()
    capsys.readouterr()
    line = fails(
        capsys, ["run", str(file), "--out", str(out), "--quiet", "--set", "methods=[triplet]"], code=1
    )
    assert "schema 0" in line and "--out" in line


def test_a_directory_with_other_files(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, ["run", str(file), "--out", str(tmp_path), "--quiet"], code=1)
    assert "choose an empty --out directory" in line


@pytest.mark.slow
def test_a_full_disk_loses_nothing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some writes the disk is full: one line; once there is room again, the rest is computed."""
    out, arguments = tmp_path / "out", ["run", str(file), "--quiet", "--set", "methods=[triplet]"]
    real, left = os.fsync, [50]

    def fsync(descriptor: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    line = fails(capsys, [*arguments, "--out", str(out)], code=1)
    assert "No space left on device" in line and "finished work is kept" in line
    finished = {path: path.read_bytes() for path in out.glob("runs/*/result.json")}
    assert finished

    monkeypatch.undo()
    assert run_app([*arguments, "--out", str(out)]) == 0
    assert run_app([*arguments, "--out", str(tmp_path / "undisturbed")]) == 0
    assert all(path.read_bytes() == content for path, content in finished.items())
    results = [directory / "report" / "results.csv" for directory in (out, tmp_path / "undisturbed")]
    assert results[0].read_bytes() == results[1].read_bytes()


def test_a_read_only_disk(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    def mkdir(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    line = fails(capsys, ["run", str(file), "--out", str(tmp_path / "out"), "--quiet"], code=1)
    assert "Read-only file system" in line and "choose another --out" in line


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(RunError, match=r"x\.json is damaged"):
        files.read_json(tmp_path / "x.json")


def test_debug_shows_the_traceback(file: Path) -> None:
    from levelfield.core.errors import UsageError

    with pytest.raises(UsageError):
        run_app(["--debug", "run", str(file), "--set", "methods=[tripelt]"])


def test_a_search_without_a_finished_trial_is_reported(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = ["--set", "optimizer.lr=1e30", "--set", "methods=[contrastive]"]
    line = fails(capsys, ["run", str(file), "--out", str(tmp_path / "out"), "--quiet", *overrides], code=1)
    assert "every trial of contrastive failed" in line
