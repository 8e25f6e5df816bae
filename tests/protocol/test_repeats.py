"""``search.repeats``: several searches per method measure the luck of the search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import analyze, read_comparison
from levelfield.protocol import plan, resolve_experiment
from levelfield.records import Store
from levelfield.reports import result_warnings

pytestmark = pytest.mark.slow


@pytest.fixture
def repeated(tiny: dict[str, Any]) -> dict[str, Any]:
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    tiny["search"] |= {"repeats": 2}
    return tiny | {"methods": ["triplet", "contrastive"]}


def whole(root: Path) -> dict[str, bytes]:
    """Return every record that a report is made from, except those with times."""
    kept = ("searches/*/*", "selections/*", "confirmations/*/*.json", "runs/*/result.json")
    return {str(f.relative_to(root)): f.read_bytes() for pattern in kept for f in root.glob(pattern)}


def test_a_single_search_can_be_extended_and_nothing_is_computed_twice(
    repeated: dict[str, Any], tmp_path: Path
) -> None:
    single = repeated | {"search": repeated["search"] | {"repeats": 1}}
    grown, fresh = tmp_path / "grown", tmp_path / "fresh"
    lf.run(lf.Experiment.build(**single), grown)
    before = whole(grown)
    lf.run(lf.Experiment.build(**repeated), grown)
    lf.run(lf.Experiment.build(**repeated), fresh)
    after = whole(grown)
    assert before.items() < after.items(), "the first search stays as it was"
    assert after == whole(fresh), "and the outcome is that of both at once"


def test_repeats_have_seeds_of_their_own_and_all_of_them_count(
    repeated: dict[str, Any], tmp_path: Path
) -> None:
    root = lf.run(lf.Experiment.build(**repeated), tmp_path / "runs").path
    comparison = read_comparison(root)
    for result in comparison.trained:
        assert len(result.repeats) == 2
        first, second = ([trial.hyperparameters for trial in repeat.trials] for repeat in result.repeats)
        assert first != second
        runs = [run for repeat in result.repeats for trial in repeat.trials for run in trial.runs]
        assert len(set(runs)) == len(runs)
        assert len(result.scores["concatenated"]["map_at_r"]) == 4, "two searches with two reruns each"
        interval = result.seed_interval("concatenated", "map_at_r")
        assert interval.n == 2, "a search with its reruns is one replicate"
        scores = result.scores["concatenated"]["map_at_r"]
        assert interval.mean == pytest.approx(sum(scores) / 4)
    judged = analyze(root).judgments["concatenated", "map_at_r"]
    assert judged.pairs
    assert not any("searched once" in line for line in result_warnings(comparison))


def test_every_selection_of_every_repeat_is_frozen_before_the_test_set_opens(
    repeated: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    lf.run(lf.Experiment.build(**repeated), out, search_only=True)
    store = Store(out)
    assert not store.ledger()
    assert {name: len(found) for name, found in store.experiment_record().selections.items()} == {
        "triplet": 2,
        "contrastive": 2,
        "untrained": 1,
    }


def test_a_single_search_is_said_to_leave_its_luck_uncounted(
    repeated: dict[str, Any], tmp_path: Path
) -> None:
    repeated["search"]["repeats"] = 1
    comparison = read_comparison(lf.run(lf.Experiment.build(**repeated), tmp_path / "runs").path)
    found = result_warnings(comparison)
    assert any("do not include luck in the search" in line for line in found)
    assert any("With 2 trials per search" in line for line in found)
    search = comparison.experiment.search.model_copy(update={"repeats": 3})
    many = replace(comparison, experiment=comparison.experiment.model_copy(update={"search": search}))
    assert not any("trials per search" in line for line in result_warnings(many)), "its luck is counted"


def test_the_plan_counts_all_repeats(repeated: dict[str, Any], tmp_path: Path) -> None:
    value, out = lf.Experiment.build(**repeated), tmp_path / "runs"
    before = plan(value, out)
    assert [(m.trials, m.search_todo, m.confirm_todo) for m in before.methods] == [(4, 8, 8)] * 2
    lf.run(value, out)
    assert plan(value, out).runs_todo == 0


def test_the_first_repeat_has_the_seeds_of_a_single_search(repeated: dict[str, Any]) -> None:
    first, second = resolve_experiment(lf.Experiment.build(**repeated)).repeats
    single = resolve_experiment(lf.Experiment.build(**repeated | {"search": {"trials": 2}}))
    assert first.seed("confirm", 0, 0) == single.seed("confirm", 0, 0) != second.seed("confirm", 0, 0)
