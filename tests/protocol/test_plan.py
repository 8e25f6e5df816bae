"""The plan counts exactly the work that a run then does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.protocol import plan
from levelfield.records import Store
from levelfield.train import Speed, measure_speed


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> dict[str, Any]:
    tiny["training"] |= {"max_epochs": 6, "evaluate_every": 2, "patience": 1}
    return tiny | {
        "methods": ["triplet", {"name": "contrastive", "set": {"pos_margin": 0.0, "neg_margin": 0.5}}]
    }


def counts(found: Any) -> list[tuple[int, int, int, int]]:
    return [(m.search_done, m.search_todo, m.confirm_done, m.confirm_todo) for m in found.methods]


@pytest.mark.slow
def test_before_during_and_after_a_run(experiment: dict[str, Any], tmp_path: Path) -> None:
    value, out = lf.Experiment.build(**experiment), tmp_path / "runs"
    before = plan(value, out)
    assert counts(before) == [(0, 4, 0, 4), (0, 2, 0, 4)]  # 2 folds; nothing to search in the second
    assert (before.runs_done, before.runs_todo, before.scorings_todo) == (0, 14, 6)
    assert 0 < before.run_seconds.low < before.run_seconds.high
    assert 0 < before.seconds.low < before.seconds.high and 0 < before.disk < before.free
    assert "measured here" in before.basis
    assert not out.exists(), "a plan leaves nothing behind"

    lf.run(value, out)
    after = plan(value, out)
    assert counts(after) == [(4, 0, 4, 0), (2, 0, 4, 0)]
    assert (after.runs_done, after.runs_todo, after.scorings_todo) == (14, 0, 0)
    assert after.seconds.high == 0 and after.disk == 0
    assert "14 finished runs" in after.basis

    experiment["search"]["trials"] = 5
    more = plan(lf.Experiment.build(**experiment), out)
    assert counts(more)[0] == (4, 6, 0, 4), "another trial may win, and be confirmed anew"
    assert more.run_seconds.low == more.run_seconds.high > 0


@pytest.mark.slow
def test_a_trial_that_was_interrupted_counts_its_finished_folds(
    experiment: dict[str, Any], tmp_path: Path
) -> None:
    value, out = lf.Experiment.build(**experiment), tmp_path / "runs"
    lf.run(value, out)
    resolved = lf.protocol.resolve_experiment(value)
    search = lf.protocol.search_id(resolved, resolved.methods[0])
    trial = Store(out).trials(search)[1]
    Store(out).trial_file(search, 1).unlink()
    (Store(out).run(trial.runs[1]).path / "result.json").unlink()
    assert counts(plan(value, out))[0] == (3, 1, 0, 4)


def test_the_bounds_of_a_run_are_those_of_early_stopping(
    experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.protocol import _plan

    fixed = Speed(
        step=1.0, steps=10, evaluation=100.0, image=0.0, feature=0.0, weights=5, state=7, feature_bytes=0
    )
    monkeypatch.setattr(_plan, "measure_speed", lambda *_: fixed)
    found = plan(lf.Experiment.build(**experiment), tmp_path / "runs")
    # at least 2 epochs (patience 1) with evaluations before and after; at most 6 with 1 + 3 evaluations
    assert (found.run_seconds.low, found.run_seconds.high) == (2 * 10 + 200, 6 * 10 + 400)
    assert found.seconds.high == 14 * 460
    experiment["engine"] = {"workers": 2}
    halved = plan(lf.Experiment.build(**experiment), tmp_path / "runs")
    assert halved.seconds.high == 14 * 460 / 2


def test_a_frozen_trunk_is_measured_without_computing_its_features(
    experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    experiment["trunk"]["mode"] = "frozen"
    resolved = lf.protocol.resolve_experiment(lf.Experiment.build(**experiment))
    spec = resolved.run_spec(resolved.methods[0], {"margin": 0.1}, fold=0, seed=0)
    speed = measure_speed(spec, resolved.resources)
    assert speed.feature > 0 and speed.feature_bytes > 0 and speed.weights > 0
    assert not (tmp_path / "cache" / "features").exists()
