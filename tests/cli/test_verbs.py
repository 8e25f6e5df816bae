"""plan, sweep, reproduce and study on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from levelfield.cli._app import run_app
from levelfield.records import Store


@pytest.fixture
def file(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(tiny | {"methods": ["triplet"], "confirm": {"reruns": 2}}))
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert run_app([str(argument) for argument in arguments]) == code
    return capsys.readouterr().out


@pytest.mark.slow
def test_plan_run_reproduce(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    assert "8 to do, 0 done" in call(capsys, "plan", file, "--out", out)
    found = json.loads(call(capsys, "plan", file, "--out", out, "--json"))
    assert found["runs_todo"] == 8 and found["methods"][0]["method"] == "triplet"
    call(capsys, "run", file, "--out", out, "--quiet", "--search-only")
    assert not Store(out).ledger(), "the test set stays closed"
    assert "4 to do, 4 done" in call(capsys, "plan", file, "--out", out)
    call(capsys, "run", file, "--out", out, "--quiet")
    plugin = yaml.safe_load(file.read_text())["plugins"][0]
    options = ["--plugin", plugin, "--workers", 0, "--quiet"]
    text = call(capsys, "reproduce", out, *options)
    assert "12 identical, 0 consistent, 0 different, 0 missing" in text and "Changed: none" in text
    for rerun in (out / "confirmations").rglob("rerun-*.json"):
        rerun.write_text(rerun.read_text().replace('"map_at_r": 0.', '"map_at_r": 0.9'))
    found = json.loads(call(capsys, "reproduce", out, *options, "--json", code=1))
    assert {n["verdict"] for n in found["numbers"] if n["metric"] == "map_at_r"} == {"different"}


@pytest.mark.slow
def test_sweep(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "swept"
    text = call(capsys, "sweep", file, "--over", "batch.size=6,12", "--out", out, "--quiet")
    assert "## batch.size" in text and "| 12 |" in text
    assert (out / "batch.size=6" / "experiment.json").exists()
    assert (out / "batch.size-relative.png").exists() and (out / "batch.size-scores.html").exists()


@pytest.mark.slow
def test_study_test_feedback(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "study", "test-feedback", file, "--out", tmp_path / "study", "--quiet")
    assert "# The price of test feedback" in text and "| triplet | 2 |" in text


@pytest.mark.slow
def test_the_other_studies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "study", "toy-lines", "--seeds", 2, "--out", tmp_path / "lines", "--quiet")
    assert "toy-lines.md" in text
    text = call(capsys, "study", "metrics-on-toys", "--out", tmp_path / "toys", "--quiet")
    assert "metrics-on-toys.md" in text


def test_data_has_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    text = call(capsys, "data", "--help")
    assert all(verb in text for verb in ("fetch", "check", "prepare"))
