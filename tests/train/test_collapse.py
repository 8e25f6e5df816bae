"""A run that learns nothing is reported with the likely cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.helpers.one_run import job

from levelfield.records import EpochLine
from levelfield.train import run_job
from levelfield.train._collapse import diagnose_collapse


def line(epoch: int, loss: float | None, score: float, alike: float = 0.5) -> EpochLine:
    return EpochLine(epoch=epoch, loss=loss, scores={"map_at_r": score}, alike=alike)


START = line(0, None, 0.3)
CASES = {
    "at its margin": ([line(1, 0.201, 0.1, 0.999)], "margin 0.2: the hardest negatives"),
    "alike": ([line(1, 0.9, 0.1, 0.999)], "all embeddings are alike (mean cosine 0.999): the learning rate"),
    "no tuples": ([line(1, 0.0, 0.3), line(2, 0.0, 0.3)], "no tuples"),
    "stuck": ([line(e, 0.7, 0.3) for e in (1, 2, 3)], "the loss stays at 0.7"),
}


@pytest.mark.parametrize(("lines", "cause"), CASES.values(), ids=CASES)
def test_the_likely_cause_is_named(lines: list[EpochLine], cause: str) -> None:
    assert cause in diagnose_collapse([START, *lines], "map_at_r", sign=1, margins={"margin": 0.2})


@pytest.mark.parametrize(
    "lines",
    [
        [line(1, 0.2, 0.31, 0.999)],  # it learned: a narrow cone is not a collapse
        [line(1, 0.5, 0.3), line(2, 0.0, 0.29)],  # it fitted its training classes
        [line(1, 0.7, 0.3), line(2, 0.6, 0.3), line(3, 0.5, 0.2)],  # it overfits
        [],
    ],
)
def test_other_runs_are_not_collapsed(lines: list[EpochLine]) -> None:
    assert diagnose_collapse([START, *lines], "map_at_r", sign=1, margins={"margin": 0.2}) == ""


def test_a_lower_value_may_be_better() -> None:
    falls = [START, line(1, 0.9, 0.1, 0.999)]
    assert diagnose_collapse(falls, "map_at_r", sign=-1, margins={}) == ""


def test_a_run_without_tuples_says_so(tiny: dict[str, Any], tmp_path: Path) -> None:
    nothing = {
        "name": "x",
        "loss": "contrastive",
        "space": {"pos_margin": [0.0, 5.0]},
        "set": {"pos_margin": 3.0, "neg_margin": 0.0},
    }
    result = run_job(job(tiny, tmp_path, method=nothing, optimizer={"name": "sgd", "lr": 1e-9}))
    assert result.status == "complete" and "the loss was 0 in every epoch" in result.collapse
