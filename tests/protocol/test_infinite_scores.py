"""A score that is infinite or NaN is a cell: it ends no experiment, and everything can be read again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import analyze, read_comparison, verify
from levelfield.protocol import reproduce
from levelfield.records import Rerun, Store
from levelfield.reports import results_markdown, write_report
from levelfield.track._reader import RecordReader

PLUGIN = """
import levelfield as lf

@lf.metrics.register("odd_finite", kind="structure")
def odd_finite(space):
    return float("inf") if space.vectors.source[0, 0] > 0 else 1.0

@lf.metrics.register("never_a_number", kind="structure", higher_is_better=True)
def never_a_number(space):
    return float("nan")
"""


@pytest.fixture(scope="session")  # its plug-in can be registered once in a process
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Path, ...]]:
    """Directory of an experiment whose embeddings of 8 numbers are nearly flat, and its plug-ins."""
    from tests.conftest import tiny_values

    folder = tmp_path_factory.mktemp("infinite")
    (folder / "odd_metrics.py").write_text(PLUGIN)
    values: dict[str, Any] = tiny_values()
    values["plugins"] = [*values["plugins"], str(folder / "odd_metrics.py")]
    values["training"] = {"iterations_per_epoch": 1, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    values |= {"metrics": ["map_at_r", "rho", "odd_finite", "never_a_number"], "search": {"trials": 1}}
    values |= {"head": {"size": 64}, "confirm": {"reruns": 2, "gallery": 0}, "methods": ["triplet"]}
    root = lf.run(values, folder / "out").path
    return root, tuple(Path(file) for file in values["plugins"])


@pytest.mark.slow
def test_the_experiment_ends_and_the_scores_are_cells(finished: tuple[Path, tuple[Path, ...]]) -> None:
    root, _ = finished
    comparison = read_comparison(root)
    scores = comparison.trained[0].scores["concatenated"]
    assert all(math.isfinite(score) for score in scores["map_at_r"])
    assert all(map(math.isinf, scores["rho"])) and all(map(math.isnan, scores["never_a_number"]))
    table = results_markdown(analyze(root))
    assert "| inf |" in table and "| nan |" in table


def test_records_are_json_and_consistent(finished: tuple[Path, tuple[Path, ...]]) -> None:
    root, _ = finished

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    for file in root.rglob("*.json"):
        json.loads(file.read_text(), parse_constant=refuse)
    assert verify(root) == []


def test_verdicts_report_and_trackers_leave_such_a_score_out(finished: tuple[Path, tuple[Path, ...]]) -> None:
    root, _ = finished
    analysis = analyze(root, metric="map_at_r")
    assert analysis.pairs and analysis.means
    for metric in ("rho", "never_a_number"):
        assert not set(analyze(root, metric=metric).means) & {"triplet"}
    write_report(root)
    for record in RecordReader(Store(root)).read():
        assert all(math.isfinite(score) for score in record.scores.values())


def test_it_is_reproduced(finished: tuple[Path, tuple[Path, ...]]) -> None:
    root, plugins = finished
    again = reproduce(root, plugins=plugins, workers=0)
    assert {number.verdict for number in again.numbers} == {"identical"}


def test_finite_scores_are_written_as_before() -> None:
    rerun = Rerun(concatenated={"rho": 0.25, "pi_ratio": math.inf})
    assert rerun.model_dump(mode="json")["concatenated"] == {"rho": 0.25, "pi_ratio": "inf"}
    assert Rerun.model_validate(rerun.model_dump(mode="json")) == rerun
