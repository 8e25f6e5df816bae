"""``confirm.rerank``: the effect of re-ranking on a method's scores, tuned on validation classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.core.errors import UsageError
from levelfield.records import EVENT_FROZEN, EVENT_SEALED, Store
from levelfield.reports import verify_experiment, write_report


@pytest.fixture
def quick(tiny: dict[str, Any]) -> dict[str, Any]:
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return tiny | {"methods": ["triplet"]}


@pytest.mark.slow
def test_the_first_rerun_is_scored_with_and_without(quick: dict[str, Any], tmp_path: Path) -> None:
    quick["confirm"] |= {"rerank": ["aqe", "whitening"]}
    root = lf.run(lf.Experiment.build(**quick), tmp_path / "runs").path
    store = Store(root)
    (selection,) = store.experiment_record().selection_ids("triplet")
    first, second = store.reruns(selection, 2).values()
    assert [way.name for way in first.reranked] == ["none", "aqe", "whitening"] and not second.reranked
    plain = first.reranked[0]
    assert plain.scores["map_at_r"].value == pytest.approx(first.folds[0]["map_at_r"], abs=1e-5)
    for way in first.reranked[1:]:
        for metric, gain in way.gains.items():
            difference = way.scores[metric].value - plain.scores[metric].value
            assert gain.value == pytest.approx(difference, abs=1e-9) and gain.low <= gain.value <= gain.high
    assert "With and without re-ranking" in write_report(root).read_text()
    assert verify_experiment(root) == []


@pytest.mark.slow
def test_added_later_it_opens_the_test_set_again_and_says_so(quick: dict[str, Any], tmp_path: Path) -> None:
    root = lf.run(lf.Experiment.build(**quick), tmp_path / "runs").path
    assert "With and without re-ranking" not in write_report(root).read_text()
    lines = len(Store(root).ledger())
    quick["confirm"] |= {"rerank": ["aqe"]}
    lf.run(lf.Experiment.build(**quick), tmp_path / "runs")
    store = Store(root)
    assert [line.event for line in store.ledger()[lines:]] == [
        EVENT_FROZEN,
        "reopened for other metrics",
        EVENT_SEALED,
    ]
    (selection,) = store.experiment_record().selection_ids("triplet")
    assert [way.name for way in store.reruns(selection, 2)[0].reranked] == ["none", "aqe"]
    lf.run(lf.Experiment.build(**quick), tmp_path / "runs")
    assert len(store.ledger()) == lines + 3, "it is done once"


def test_an_unknown_way_is_refused_before_anything_runs(quick: dict[str, Any], tmp_path: Path) -> None:
    quick["confirm"] |= {"rerank": ["alpha_qee"]}
    with pytest.raises(UsageError, match="alpha_qe"):
        lf.run(lf.Experiment.build(**quick), tmp_path / "runs")
