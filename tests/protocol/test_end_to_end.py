"""A whole experiment on toy data: all stages run, and every number is reproducible."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.records import Store
from levelfield.reports import write_report


def results(root: Path) -> bytes:
    write_report(root)
    return (root / "report" / "results.csv").read_bytes()


@pytest.fixture
def finished(finished_tiny: Callable[..., Path]) -> Path:
    return finished_tiny()


@pytest.mark.slow
def test_every_method_and_the_baseline_have_both_scores(finished: Path) -> None:
    comparison = read_comparison(finished)
    assert [r.method for r in comparison.results] == [
        "untrained",
        "contrastive",
        "triplet",
        "normalized_softmax",
    ]
    for result in comparison.results:
        for setting in ("separated", "concatenated"):
            for metric in ("precision_at_1", "r_precision", "map_at_r"):
                assert len(result.scores[setting][metric]) == 2
                assert all(0 <= value <= 1 for value in result.scores[setting][metric])


@pytest.mark.slow
def test_a_trained_network_beats_the_untrained_one_by_far(tmp_path: Path) -> None:
    experiment = lf.Experiment.build(
        name="glyphs",
        preset="demo",
        methods=[{"name": "triplet", "set": {"margin": 0.2}}],
        split={"folds": 2},
        training={"iterations_per_epoch": 20, "max_epochs": 4, "evaluate_every": 4},
        confirm={"reruns": 1},
        engine={"workers": 0},
    )
    scores = {
        r.method: r.scores["separated"]["map_at_r"][0]
        for r in read_comparison(lf.run(experiment, tmp_path).path).results
    }
    assert scores["triplet"] > 2 * scores["untrained"]


def test_the_score_of_a_trial_is_the_mean_over_its_folds(finished: Path) -> None:
    for result in read_comparison(finished).results[1:]:
        assert len(result.trials) == 2
        for trial in result.trials:
            assert len(trial.runs) == 2
            scores = [score for score in trial.fold_scores if score is not None]
            assert len(scores) == 2 and trial.score == pytest.approx(sum(scores) / 2)


def test_the_selection_is_the_best_trial(finished: Path) -> None:
    for result in read_comparison(finished).results[1:]:
        assert result.selection.score == max(
            trial.score for trial in result.trials if trial.score is not None
        )


def test_the_best_checkpoint_is_the_one_that_scored_best(finished: Path) -> None:
    store = Store(finished)
    trial = read_comparison(finished).results[1].trials[0]
    for run_id, score in zip(trial.runs, trial.fold_scores, strict=True):
        log = store.run(run_id).log()
        assert max(line.scores["map_at_r"] for line in log) == score
        result = store.run(run_id).result()
        assert result is not None
        assert log[[line.epoch for line in log].index(result.best_epoch)].scores["map_at_r"] == score


def test_every_selection_was_frozen_before_the_test_set_was_opened(finished: Path) -> None:
    ledger = Store(finished).ledger()
    assert [(line.method, line.event) for line in ledger] == [
        ("all", "selections frozen"),
        ("untrained", "opened"),
        ("contrastive", "opened"),
        ("triplet", "opened"),
        ("normalized_softmax", "opened"),
        ("all", "scores sealed"),
    ]


@pytest.mark.slow
def test_running_again_does_no_work_twice(finished: Path, tiny: dict[str, Any]) -> None:
    before = {
        path: path.stat().st_mtime_ns for path in finished.rglob("*.json*") if "report" not in path.parts
    }
    lf.run(lf.Experiment.build(**tiny), finished)
    after = {
        path: path.stat().st_mtime_ns for path in finished.rglob("*.json*") if "report" not in path.parts
    }
    changed = {path.name for path in before if before[path] != after[path]}
    assert changed <= {"experiment.json"}
    assert before.keys() == after.keys()


@pytest.mark.slow
def test_two_directories_give_identical_results(finished: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    other = lf.run(lf.Experiment.build(**tiny), tmp_path / "other").path
    assert results(other) == results(finished)


@pytest.mark.slow
def test_more_trials_keep_the_old_ones(finished: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["methods"] = ["triplet"]
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "more").path
    first = read_comparison(root).results[1].trials
    tiny["search"]["trials"] = 3
    lf.run(lf.Experiment.build(**tiny), root)
    grown = read_comparison(root)
    assert grown.results[1].trials[:2] == first
    assert len(grown.results[1].trials) == 3
    assert len(grown.revisions) == 2


def test_no_path_or_host_is_part_of_a_run(finished: Path) -> None:
    import platform

    for spec in (finished / "runs").glob("*/spec.json"):
        text = spec.read_text()
        assert str(Path.home()) not in text and "/tmp" not in text and "toy_plugin" not in text
        assert f'"{platform.node()}"' not in text


@pytest.mark.slow
def test_the_report_holds_the_table_the_curves_and_the_ledger(finished: Path) -> None:
    page = write_report(finished).read_text()
    for expected in ("normalized_softmax", "one line per fold", "best so far", "Ledger of the test set"):
        assert expected in page
    outside_scripts = re.sub(r"<script[^>]*>.*?</script>", "<script>", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!data:|#)', outside_scripts), "the page must be self-contained"
    rows = list(csv.DictReader((finished / "report" / "results.csv").open()))
    assert len(rows) == 4 * 2 * 3
    assert "| triplet |" in (finished / "report" / "results.md").read_text()


def test_records_are_json_that_says_how_they_came_about(finished: Path) -> None:
    run = next((finished / "runs").iterdir())
    provenance = json.loads((run / "provenance.json").read_text())
    assert {"versions", "commit", "host", "seconds", "python"} <= provenance.keys()
    assert not (run / "state.pt").exists()
