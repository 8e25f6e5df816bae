"""Optuna's own loader opens an exported search and finds every trial as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from tests.helpers.made_experiments import written

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.analysis.optuna_studies import export_study
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError


def load(file: Path, name: str) -> optuna.Study:
    return optuna.load_study(study_name=name, storage=f"sqlite:///{file}")


@pytest.mark.slow
def test_optuna_loads_every_search(tiny: dict[str, Any], tmp_path: Path) -> None:
    methods = ["contrastive", {"name": "fixed", "loss": "triplet", "set": {"margin": 0.3}}]
    values = tiny | {"methods": methods, "search": {"trials": 6, "sampler": "random"}}
    root = lf.run(lf.Experiment.build(**values | {"confirm": {"reruns": 1}}), tmp_path / "out").path
    assert run_app(["export-study", str(root), "-o", str(tmp_path / "study.db")]) == 0
    names = optuna.get_all_study_names(f"sqlite:///{tmp_path / 'study.db'}")
    assert sorted(names) == ["tiny/contrastive", "tiny/fixed"]
    found = {result.method: result for result in read_comparison(root).trained}
    study = load(tmp_path / "study.db", "tiny/contrastive")
    trials = found["contrastive"].trials
    assert [trial.value for trial in study.trials] == [trial.score for trial in trials]
    assert [trial.params for trial in study.trials] == [trial.hyperparameters for trial in trials]
    assert study.best_trial.number == found["contrastive"].selection.trial
    importance = optuna.importance.get_param_importances(study)
    assert importance.keys() == trials[0].hyperparameters.keys()
    margin = study.trials[0].distributions["neg_margin"]
    search = found["contrastive"].search
    assert search is not None and isinstance(margin, FloatDistribution)
    wanted = search.space["neg_margin"]
    assert wanted.kind == "float" and (margin.low, margin.high) == (wanted.low, wanted.high)
    assert study.trials[0].user_attrs["fold 0"] == trials[0].fold_scores[0]


def test_failed_and_pruned_trials_are_kept(tmp_path: Path) -> None:
    root = written(tmp_path / "made", means={"mine": 0.5, "untrained": 0.1})
    (search,) = read_comparison(root).trained[0].repeats
    files = sorted((root / "searches").rglob("trial-*.json"))
    for file, change in (
        (files[1], {"score": None, "reason": "fold 0: the loss is not finite"}),
        (files[2], {"score": None, "reason": "pruned", "estimate": 0.2}),
    ):
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    export_study([root], tmp_path / "study.db")
    study = load(tmp_path / "study.db", "made/mine")
    states = [trial.state.name for trial in study.trials]
    recorded = read_comparison(root).trained[0].trials
    assert states[1:3] == ["FAIL", "PRUNED"]
    assert [state == "COMPLETE" for state in states] == [trial.score is not None for trial in recorded]
    assert study.trials[1].user_attrs["reason"] == "fold 0: the loss is not finite"
    assert study.user_attrs["selected trial"] == search.selection.trial


def test_a_smaller_score_can_be_better(tmp_path: Path) -> None:
    metric_infos = [{"name": "map_at_r", "label": "MAP@R", "unit": "percent", "higher_is_better": False}]
    root = written(
        tmp_path / "made",
        means={"mine": 0.5, "untrained": 0.1},
        metrics=("map_at_r",),
        metric_infos=metric_infos,
    )
    export_study([root], tmp_path / "study.db")
    assert load(tmp_path / "study.db", "made/mine").direction.name == "MINIMIZE"


def test_nothing_to_export_is_told(tmp_path: Path) -> None:
    root = written(tmp_path / "made", means={"mine": 0.5, "untrained": 0.1})
    with pytest.raises(UsageError, match="export them to separate files"):
        export_study([root, root], tmp_path / "study.db")
    assert not (tmp_path / "study.db").exists()
