"""Options of a search: start from published values, prune trials that cannot win, use up a grid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import levelfield as lf
from levelfield import methods
from levelfield.analysis import published, read_comparison
from levelfield.config import MethodSpec
from levelfield.core.errors import UsageError
from levelfield.protocol import resolve_experiment
from levelfield.protocol.search._proposals import trial_budget
from levelfield.protocol.search._trials import MIN_TRIALS_TO_PRUNE, cannot_win
from levelfield.protocol.spec import _resolve
from levelfield.protocol.spec._resolve import first_search_point
from levelfield.records import Trial

pytestmark = pytest.mark.slow

SCORES = st.floats(0, 1)


def trials_of(root: Path) -> list[Trial]:
    return read_comparison(root).results[1].trials


@pytest.fixture
def short(tiny: dict[str, Any]) -> dict[str, Any]:
    """Return an experiment with runs of two steps, for tests where the scores do not matter."""
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return tiny | {"methods": ["triplet"], "confirm": {"reruns": 1}}


def test_the_published_optimum_can_be_the_first_point(short: dict[str, Any]) -> None:
    short |= {"dataset": {"name": "cub200"}, "search": {"first": "published"}}
    method = methods.resolve_method(MethodSpec(name="triplet"))
    assert first_search_point(lf.Experiment.build(**short), method) == published.optimum("triplet", "cub200")
    short["search"] = {"first": "published:deep-dive"}
    other = published.optimum("triplet", "cub200", source="deep-dive")
    assert first_search_point(lf.Experiment.build(**short), method) == other
    fixed = methods.resolve_method(MethodSpec(name="triplet", set={"margin": 0.3}))
    assert first_search_point(lf.Experiment.build(**short), fixed) == {}


def test_the_first_trial_tries_it(
    short: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_resolve, "_published", lambda *_: {"margin": 0.0961})
    short["search"] = {"trials": 2, "sampler": "random", "first": "published"}
    first, second = trials_of(lf.run(lf.Experiment.build(**short), tmp_path / "runs").path)
    assert first.hyperparameters == {"margin": 0.0961} != second.hyperparameters


def test_a_dataset_without_published_optima_is_refused_before_anything_runs(short: dict[str, Any]) -> None:
    short["search"]["first"] = "published"
    with pytest.raises(UsageError, match="toy_images"):
        resolve_experiment(lf.Experiment.build(**short))


def test_every_published_optimum_lies_inside_its_search_range() -> None:
    for row in published.optima():
        if row.value is None or row.method not in methods.method_names():
            continue
        method = methods.resolve_method(MethodSpec(name=row.method))
        if row.parameter in method.space:
            assert method.space[row.parameter].contains(row.value), row


def test_a_grid_that_no_memory_holds_is_refused(short: dict[str, Any]) -> None:
    short["search"] = {"sampler": "grid"}
    short["methods"] = [{"name": "triplet", "space": {"margin": [0.0, 1.0, "step", 1e-9]}}]
    with pytest.raises(UsageError, match=r"its grid has 1e\+09 points.*narrow"):
        resolve_experiment(lf.Experiment.build(**short))


def test_a_grid_and_an_empty_space_end_the_search(short: dict[str, Any], tmp_path: Path) -> None:
    short["methods"] = [
        {"name": "triplet", "space": {"margin": [0.1, 0.2, 0.3]}},
        {"name": "contrastive", "set": {"pos_margin": 0.0, "neg_margin": 0.5}},
    ]
    short["search"] = {"trials": 9, "sampler": "grid"}
    resolved = resolve_experiment(lf.Experiment.build(**short))
    assert [trial_budget(resolved, method) for method in resolved.methods] == [3, 1]
    comparison = read_comparison(lf.run(lf.Experiment.build(**short), tmp_path / "grid").path)
    assert [len(result.trials) for result in comparison.trained] == [3, 1]


@given(
    st.lists(st.lists(SCORES, min_size=3, max_size=3), min_size=MIN_TRIALS_TO_PRUNE, max_size=9), st.data()
)
def test_only_a_trial_that_would_have_to_break_a_record_is_hopeless(
    rows: list[list[float]], draw: st.DataObject
) -> None:
    """A pruned trial would not win with the best scores seen in its other folds."""
    scores = draw.draw(st.lists(SCORES, min_size=1, max_size=2))
    rest = [draw.draw(st.floats(0, max(row[fold] for row in rows))) for fold in range(len(scores), 3)]
    if cannot_win(scores, rows):
        assert sum(scores) + sum(rest) < max(sum(row) for row in rows)
    for row in rows:
        if sum(row) == max(sum(other) for other in rows):
            assert not cannot_win(row[: len(scores)], rows) or sum(row[: len(scores)]) + sum(
                max(r[fold] for r in rows) for fold in range(len(scores), 3)
            ) < sum(row)


def test_few_trials_prune_nothing() -> None:
    assert not cannot_win([0.0], [[1.0, 1.0]] * (MIN_TRIALS_TO_PRUNE - 1))


def test_pruning_skips_folds_says_so_and_survives_an_interruption(
    short: dict[str, Any], tmp_path: Path
) -> None:
    short["split"] = {"name": "class_disjoint", "folds": 3}
    short["search"] = {"trials": 12, "sampler": "random", "prune": True}
    root = lf.run(lf.Experiment.build(**short), tmp_path / "pruned").path
    trials = trials_of(root)
    pruned = [trial for trial in trials if trial.pruned]
    assert pruned, "some trial of twelve falls behind"
    for trial in pruned:
        assert trial.score is None and len(trial.runs) == len(trial.fold_scores) < 3
        assert "pruned after fold" in trial.reason
    result = read_comparison(root).results[1]
    assert (result.pruned, result.diverged) == (len(pruned), 0)

    searches = sorted((root / "searches").rglob("trial-*.json"))
    before = {file: json.loads(file.read_text()) for file in searches}
    for file in searches[6:]:
        file.unlink()
    lf.run(lf.Experiment.build(**short), root)
    assert {file: json.loads(file.read_text()) for file in searches} == before

    short["search"]["prune"] = False
    full = trials_of(lf.run(lf.Experiment.build(**short), tmp_path / "full").path)
    assert result.selection.hyperparameters in [trial.hyperparameters for trial in full]
    for before_, after in zip(trials, full, strict=True):
        assert after.fold_scores[: len(before_.fold_scores)] == before_.fold_scores
