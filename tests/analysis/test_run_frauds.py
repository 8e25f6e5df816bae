"""Frauds in the records of single runs: their results, curves and diagnoses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.forgery import reseal
from tests.helpers.tampering import edit, rerun_of

from levelfield.core.errors import RunError
from levelfield.core.files import read_lines
from levelfield.reports import verify_experiment, write_report

pytestmark = pytest.mark.slow  # experiments, end to end


def run_of(directory: Path) -> Path:
    name = json.loads(rerun_of(directory, "triplet").read_text())["runs"][0]
    return directory / "runs" / str(name)


def hide_a_collapse(directory: Path) -> None:
    edit(run_of(directory) / "result.json", lambda result: result.update(collapse="all embeddings are alike"))


def embellish_a_curve(directory: Path) -> None:
    file = run_of(directory) / "epochs.jsonl"
    lines = read_lines(file)
    for line in lines:
        line["scores"] = {name: 0.5 + value / 2 for name, value in line["scores"].items()}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def choose_a_worse_epoch(directory: Path) -> None:
    """A curve with a better epoch than the chosen one, as after a choice by test scores."""
    file = run_of(directory) / "epochs.jsonl"
    best = json.loads((run_of(directory) / "result.json").read_text())["best_epoch"]
    lines = read_lines(file)
    for line in lines:
        if line["epoch"] != best:
            line["scores"] = dict.fromkeys(line["scores"], 1.0)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def claim_a_longer_training(directory: Path) -> None:
    edit(run_of(directory) / "result.json", lambda result: result.update(last_epoch=500))


@pytest.mark.parametrize(
    ("fraud", "problem"),
    [
        (hide_a_collapse, "rerun 1 of triplet hides or invents a collapse"),
        (embellish_a_curve, "contradicts its result"),
        (choose_a_worse_epoch, "contradicts its result"),
        (claim_a_longer_training, "states 500 epochs"),
    ],
    ids=lambda value: getattr(value, "__name__", "") if callable(value) else "",
)
def test_a_fraud_in_a_run_is_found(directory: Path, fraud: Any, problem: str) -> None:
    fraud(directory)
    reseal(directory)
    write_report(directory)
    assert any(problem in line for line in verify_experiment(directory)), verify_experiment(directory)


def test_a_name_that_occurs_twice_is_damage(directory: Path) -> None:
    """Programs do not agree which of the two values counts."""
    file = rerun_of(directory, "triplet")
    text = file.read_text()
    assert '"separated": {' in text
    file.write_text(text.replace('"separated": {', '"separated": {"map_at_r": 0.9}, "separated": {', 1))
    with pytest.raises(RunError, match="a name occurs twice"):
        verify_experiment(directory)


def test_a_pipe_in_the_place_of_a_table_is_one_line(directory: Path) -> None:
    """Before, verify waited for ever."""
    import os

    if os.name == "nt":
        pytest.skip("Windows has no such files")
    file = directory / "report" / "results.csv"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(RunError, match="a pipe or a device"):
        verify_experiment(directory)
