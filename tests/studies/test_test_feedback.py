"""The study of test feedback: two arms that differ only in the images that choose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.core.errors import UsageError
from levelfield.records import Store
from levelfield.stats import Interval
from levelfield.studies import test_feedback as study


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> lf.Experiment:
    tiny |= {"methods": ["triplet"], "search": {"trials": 3, "sampler": "gp"}}
    return lf.Experiment.build(**tiny)


@pytest.mark.slow
def test_both_arms_try_the_same_and_only_one_is_leaky(experiment: lf.Experiment, tmp_path: Path) -> None:
    (outcome,) = study.run_study(experiment, tmp_path)
    honest, leaky = read_comparison(tmp_path / "validation"), read_comparison(tmp_path / "test")
    assert not honest.leaky and leaky.leaky
    tried = [[trial.hyperparameters for trial in arm.trained[0].trials] for arm in (honest, leaky)]
    assert tried[0] == tried[1] and len(tried[0]) == 3
    assert outcome.best_seen == max(trial.score or 0.0 for trial in leaky.trained[0].trials)
    assert outcome.chosen is not None and outcome.inflation >= 0, "among the same networks it can only gain"
    twins = [
        Store(tmp_path / name).run(arm.trained[0].trials[0].runs[0]).log()
        for name, arm in (("validation", honest), ("test", leaky))
    ]
    losses = [[line.loss for line in log] for log in twins]
    common = min(map(len, losses))
    assert common > 1 and losses[0][:common] == losses[1][:common], "the same network, bit by bit"
    events = [line.event for line in Store(tmp_path / "test").ledger()]
    assert events[0].startswith("leaky") and sum(event.startswith("leaky") for event in events) == 1
    assert not [line for line in honest.ledger if line.event.startswith("leaky")]
    assert "**leaky**" in (tmp_path / "test-feedback.md").read_text()
    assert (tmp_path / "test-feedback.png").stat().st_size > 0

    before = (tmp_path / "test-feedback.json").read_bytes()
    study.run_study(experiment, tmp_path)
    assert (tmp_path / "test-feedback.json").read_bytes() == before
    assert [line.event for line in Store(tmp_path / "test").ledger()] == events


def test_the_same_images_train_in_both_arms(experiment: lf.Experiment) -> None:
    from levelfield.train import load_development_view

    views = []
    for arm in study.arms(experiment):
        resolved = lf.protocol.resolve_experiment(arm)
        spec = resolved.run_spec(resolved.methods[0], {"margin": 0.1}, fold=1, seed=0)
        views.append(load_development_view(spec, resolved.resources))
    honest, leaky = views
    for one, two in zip(honest.folds, leaky.folds, strict=True):
        left, right = honest.dataset.images, leaky.dataset.images
        assert len(one.train) == len(two.train)
        assert all(
            (left.read(int(a)) == right.read(int(b))).all() for a, b in zip(one.train, two.train, strict=True)
        )
        assert set(leaky.dataset.labels[two.validation]).isdisjoint(honest.dataset.labels)


def test_what_cannot_be_compared_is_refused(tiny: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="hyperparameters: search"):
        study.arms(lf.Experiment.build(**tiny, hyperparameters="defaults"))
    tiny["split"] = {"name": "none", "allow_test_feedback": True}
    with pytest.raises(UsageError, match="choose a plan without it"):
        study.arms(lf.Experiment.build(**tiny))


def test_the_words_follow_the_numbers() -> None:
    def result(method: str, honest: float, best: float) -> study.FeedbackResult:
        reruns = Interval(0.3, 0.01, 5)
        return study.FeedbackResult(
            method, trials=10, chosen=honest, best_seen=best, honest=reruns, retrained=reruns
        )

    one, two = result("a", 0.40, 0.45), result("b", 0.41, 0.415)
    assert study.sentence(one).endswith("is 40.00: +5.00 points (+12.5%).")
    assert replace(one, chosen=None).inflation == pytest.approx(0.15)
    assert "over fresh reruns is 30.00" in study.sentence(replace(one, chosen=None))
    assert study.ranking([one, two]) == "The order of the methods changes: b, a becomes a, b."
    assert study.ranking([one]) == "The order of the methods is the same both ways: a."


@pytest.mark.slow
def test_a_leaky_plan_runs_only_when_it_is_allowed(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny |= {"methods": ["triplet"], "confirm": {"reruns": 1}}
    tiny["split"] = {"name": "test_feedback", "plan": "class_disjoint", "folds": 2}
    with pytest.raises(UsageError, match="allow_test_feedback: true"):
        lf.run(lf.Experiment.build(**tiny), tmp_path / "refused")
    tiny["split"] = {"name": "none", "allow_test_feedback": True}
    assert read_comparison(lf.run(lf.Experiment.build(**tiny), tmp_path / "none").path).leaky
