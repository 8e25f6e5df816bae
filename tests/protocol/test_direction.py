"""Selection, early stopping, pruning and the search follow the direction of the metric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.analysis.importance import compute_importance
from levelfield.core.errors import UsageError
from levelfield.core.space import Float
from levelfield.protocol import resolve_experiment
from levelfield.protocol.search._proposals import propose
from levelfield.records import Store, Trial

pytestmark = pytest.mark.slow


def test_a_metric_of_which_less_is_better_is_minimized(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["methods"] = ["triplet"]
    tiny["training"] |= {"metric": "alignment", "evaluate_every": 1}
    tiny["search"] = {"trials": 4, "sampler": "random"}
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "out").path
    (result,) = read_comparison(root).trained
    assert result.selection.score == min(trial.score for trial in result.trials if trial.score is not None)
    for trial in result.trials:
        for run, score in zip(trial.runs, trial.fold_scores, strict=True):
            log = Store(root).run(run).log()
            assert score == min(line.scores["alignment"] for line in log)
    (info,) = [m for m in Store(root).experiment_record().metrics if m.name == "alignment"]
    assert info.higher_is_better is False


def test_a_metric_without_a_direction_cannot_select(tiny: dict[str, Any]) -> None:
    @lf.metrics.register("just_a_number", kind="structure")
    def just_a_number(space: Any) -> float:
        """Do nothing."""
        return 0.5

    tiny["training"]["metric"] = "just_a_number"
    with pytest.raises(UsageError, match='metric "just_a_number" cannot select'):
        resolve_experiment(lf.Experiment.build(**tiny))
    tiny["training"]["metric"] = "map_at_r"
    resolve_experiment(lf.Experiment.build(**tiny | {"metrics": ["just_a_number"]}))


def test_the_sampler_looks_where_less_is(tiny: dict[str, Any]) -> None:
    """The score of each trial is its margin: the sampler moves up if higher is better, else down."""
    proposed = {}
    for metric in ("map_at_r", "alignment"):
        tiny["training"]["metric"] = metric
        method = {"name": "triplet", "space": {"margin": [0.0, 1.0]}}
        changes = {"methods": [method], "search": {"trials": 30, "sampler": "tpe"}}
        resolved = resolve_experiment(lf.Experiment.build(**tiny | changes))
        finished = [
            Trial(number=n, hyperparameters={"margin": n / 19}, fold_scores=(n / 19,) * 2, score=n / 19)
            for n in range(20)
        ]
        points = propose(resolved, resolved.methods[0], range(20, 26), finished=finished)
        proposed[metric] = sum(float(point["margin"]) for point in points) / len(points)
    assert proposed["map_at_r"] > 0.6 and proposed["alignment"] < 0.4


def test_importance_looks_at_the_best_trials() -> None:
    """``a`` separates the best trials, ``b`` the worst; with the other direction it is reversed."""
    space = {"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)}
    trials = []
    for n in range(40):
        a, b = (n * 7 % 40) / 39, (n * 11 % 40) / 39
        score = 2.0 if a > 0.9 else (0.0 if b > 0.9 else 1.0)
        trials.append(Trial(number=n, hyperparameters={"a": a, "b": b}, score=score + 1e-3 * n))
    assert next(iter(compute_importance(space, trials))) == "a"
    assert next(iter(compute_importance(space, trials, higher_is_better=False))) == "b"
