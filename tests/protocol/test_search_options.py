"""What a search may do: begin with published values, skip hopeless folds, use up a grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import levelfield as lf
from levelfield import methods, published
from levelfield.compare import collect
from levelfield.config import MethodSpec
from levelfield.errors import UsageError
from levelfield.protocol import _resolve, resolve
from levelfield.protocol._proposals import budget
from levelfield.protocol._resolve import first_point
from levelfield.protocol._trials import PRUNE_FROM, is_hopeless
from levelfield.records import Trial

SCORES = st.floats(0, 1)


def trials_of(folder: Path) -> list[Trial]:
    return collect(folder).results[1].trials


@pytest.fixture
def short(tiny: dict[str, Any]) -> dict[str, Any]:
    """Runs of two steps: enough where the numbers do not matter."""
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return tiny | {"methods": ["triplet"], "confirm": {"reruns": 1}}


def test_the_published_optimum_can_be_the_first_point(short: dict[str, Any]) -> None:
    short |= {"dataset": {"name": "cub200"}, "search": {"first": "published"}}
    method = methods.resolve(MethodSpec(name="triplet"))
    assert first_point(lf.Experiment.build(**short), method) == published.optimum("triplet", "cub200")
    short["search"] = {"first": "published:deep-dive"}
    other = published.optimum("triplet", "cub200", source="deep-dive")
    assert first_point(lf.Experiment.build(**short), method) == other
    fixed = methods.resolve(MethodSpec(name="triplet", set={"margin": 0.3}))
    assert first_point(lf.Experiment.build(**short), fixed) == {}


def test_the_first_trial_tries_it(
    short: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_resolve, "_published", lambda *_: {"margin": 0.0961})
    short["search"] = {"trials": 2, "sampler": "random", "first": "published"}
    first, second = trials_of(lf.run(lf.Experiment.build(**short), tmp_path / "runs"))
    assert first.hyperparameters == {"margin": 0.0961} != second.hyperparameters


def test_a_dataset_without_published_optima_is_refused_before_anything_runs(short: dict[str, Any]) -> None:
    short["search"]["first"] = "published"
    with pytest.raises(UsageError, match="toy_images"):
        resolve(lf.Experiment.build(**short))


def test_every_published_optimum_lies_inside_its_search_range() -> None:
    for row in published.optima():
        if row.value is None or row.method not in methods.names():
            continue
        method = methods.resolve(MethodSpec(name=row.method))
        if row.parameter in method.space:
            assert method.space[row.parameter].contains(row.value), row


def test_a_grid_that_no_memory_holds_is_refused(short: dict[str, Any]) -> None:
    short["search"] = {"sampler": "grid"}
    short["methods"] = [{"name": "triplet", "space": {"margin": [0.0, 1.0, "step", 1e-9]}}]
    with pytest.raises(UsageError, match=r"its grid has 1e\+09 points.*narrow"):
        resolve(lf.Experiment.build(**short))


def test_a_grid_and_an_empty_space_end_the_search(short: dict[str, Any], tmp_path: Path) -> None:
    short["methods"] = [
        {"name": "triplet", "space": {"margin": [0.1, 0.2, 0.3]}},
        {"name": "contrastive", "set": {"pos_margin": 0.0, "neg_margin": 0.5}},
    ]
    short["search"] = {"trials": 9, "sampler": "grid"}
    resolved = resolve(lf.Experiment.build(**short))
    assert [budget(resolved, method) for method in resolved.methods] == [3, 1]
    comparison = collect(lf.run(lf.Experiment.build(**short), tmp_path / "grid"))
    assert [len(result.trials) for result in comparison.trained] == [3, 1]


@given(st.lists(st.lists(SCORES, min_size=3, max_size=3), min_size=PRUNE_FROM, max_size=9), st.data())
def test_only_a_trial_that_would_have_to_break_a_record_is_hopeless(
    rows: list[list[float]], draw: st.DataObject
) -> None:
    """If its other folds turn out no better than the best seen there, a hopeless trial does not win."""
    scores = draw.draw(st.lists(SCORES, min_size=1, max_size=2))
    rest = [draw.draw(st.floats(0, max(row[fold] for row in rows))) for fold in range(len(scores), 3)]
    if is_hopeless(scores, rows):
        assert sum(scores) + sum(rest) < max(sum(row) for row in rows)
    for row in rows:
        if sum(row) == max(sum(other) for other in rows):
            assert not is_hopeless(row[: len(scores)], rows) or sum(row[: len(scores)]) + sum(
                max(r[fold] for r in rows) for fold in range(len(scores), 3)
            ) < sum(row)


def test_few_trials_prune_nothing() -> None:
    assert not is_hopeless([0.0], [[1.0, 1.0]] * (PRUNE_FROM - 1))


def test_pruning_skips_folds_says_so_and_survives_an_interruption(
    short: dict[str, Any], tmp_path: Path
) -> None:
    short["split"] = {"name": "class_disjoint", "folds": 3}
    short["search"] = {"trials": 12, "sampler": "random", "prune": True}
    root = lf.run(lf.Experiment.build(**short), tmp_path / "pruned")
    trials = trials_of(root)
    pruned = [trial for trial in trials if trial.pruned]
    assert pruned, "some trial of twelve falls behind"
    for trial in pruned:
        assert trial.score is None and len(trial.runs) == len(trial.fold_scores) < 3
        assert "pruned after fold" in trial.reason
    result = collect(root).results[1]
    assert (result.pruned, result.diverged) == (len(pruned), 0)

    searches = sorted((root / "searches").rglob("trial-*.json"))
    before = {file: json.loads(file.read_text()) for file in searches}
    for file in searches[6:]:
        file.unlink()
    lf.run(lf.Experiment.build(**short), root)
    assert {file: json.loads(file.read_text()) for file in searches} == before

    short["search"]["prune"] = False
    full = trials_of(lf.run(lf.Experiment.build(**short), tmp_path / "full"))
    assert result.selection.hyperparameters in [trial.hyperparameters for trial in full]
    for before_, after in zip(trials, full, strict=True):
        assert after.fold_scores[: len(before_.fold_scores)] == before_.fold_scores
