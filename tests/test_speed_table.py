"""The speed table compares its ratios with those of a release."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("pytorch_metric_learning")
pytest.importorskip("faiss")
from benchmarks.speed import table
from benchmarks.speed.job import QUICK, experiment
from benchmarks.speed.job_peer import fold_rows
from benchmarks.speed.vectors import class_vectors
from levelfield.config import Experiment
from levelfield.data import splits


def test_a_ratio_that_fell_by_more_than_a_quarter_is_marked(tmp_path: Path) -> None:
    before = [table.Ratio("losses", name, "peer", cpu=4.0, wall=4.0) for name in ("same", "noise", "lost")]
    file = tmp_path / "released.json"
    file.write_text(json.dumps({"version": "0.1.0", "ratios": [asdict(row) for row in before]}))
    now = [table.Ratio("losses", "same", "peer", 4.0, 4.0), table.Ratio("losses", "noise", "peer", 3.1, 3.1)]
    now += [table.Ratio("losses", "lost", "peer", 2.0, 2.0), table.Ratio("losses", "new", "peer", 2.0, 2.0)]
    _, _, same, noise, lost, new = table.table(now, table.read_earlier(file))
    assert same.endswith("| 4.00 |") and noise.endswith("| 4.00 |")
    assert lost.endswith("| 4.00, lost 50% |") and new.endswith("| not measured |")


def test_both_sides_of_the_whole_job_train_on_the_same_folds() -> None:
    classes, folds = 16, 4
    plan = splits.create(
        "class_disjoint", class_vectors(classes=classes).labels, folds=folds, test_fraction=0.5
    )
    for number, fold in enumerate(plan.folds):
        train, validation = fold_rows(classes, folds, number)
        assert train.tolist() == fold.train.tolist() and validation.tolist() == fold.validation.tolist()


def test_the_experiment_of_the_whole_job_is_valid() -> None:
    made = Experiment.build(**experiment(QUICK, 1))
    length = made.training
    assert length.iterations_per_epoch is not None and length.max_epochs * length.iterations_per_epoch == 300
