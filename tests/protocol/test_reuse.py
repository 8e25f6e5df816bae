"""Finished trials of another directory or of an archive are copied instead of run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.helpers.records_snapshot import records_of

import levelfield as lf
from levelfield.api import archive, verify
from levelfield.core import files
from levelfield.core.errors import LevelfieldError
from levelfield.records import Store


@pytest.fixture
def two_trials(tiny: dict[str, Any]) -> dict[str, Any]:
    return tiny | {"methods": ["triplet", "contrastive"], "search": {"trials": 2, "sampler": "random"}}


@pytest.mark.slow
def test_an_unfinished_archive_continues_with_the_same_records(
    two_trials: dict[str, Any], tmp_path: Path
) -> None:
    less = two_trials | {"search": {"trials": 1, "sampler": "random"}}
    lf.run(lf.Experiment.build(**less), tmp_path / "begun", search_only=True)
    archive(tmp_path / "begun", tmp_path / "copy")

    experiment = lf.Experiment.build(**two_trials)
    continued = lf.run(experiment, tmp_path / "continued", reuse=[tmp_path / "copy"]).path
    fresh = lf.run(experiment, tmp_path / "fresh").path

    assert verify(continued) == []
    assert records(continued) == records(fresh)
    copied = {
        run for run in trial_runs(continued, 0) if not (continued / "runs" / run / "epochs.jsonl").exists()
    }
    assert copied == trial_runs(continued, 0), "copied, not run"
    assert not any(
        not (continued / "runs" / run / "epochs.jsonl").exists() for run in trial_runs(continued, 1)
    )


@pytest.mark.slow
def test_a_run_with_the_spec_of_another_is_refused(two_trials: dict[str, Any], tmp_path: Path) -> None:
    experiment = lf.Experiment.build(**two_trials)
    source = lf.run(experiment, tmp_path / "source", search_only=True).path
    one, other = sorted(trial_runs(source, 0))[:2]
    spec = files.read_json(source / "runs" / other / "spec.json")
    files.write_json(source / "runs" / one / "spec.json", spec)
    with pytest.raises(LevelfieldError, match="has the spec of another run"):
        lf.run(experiment, tmp_path / "out", search_only=True, reuse=[source])


def test_a_directory_without_an_experiment_is_refused(two_trials: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(LevelfieldError, match="holds no levelfield experiment"):
        lf.run(lf.Experiment.build(**two_trials), tmp_path / "out", reuse=[tmp_path / "nothing"])


def trial_runs(root: Path, number: int) -> set[str]:
    store = Store(root)
    searches = [search for found in store.experiment_record().searches.values() for search in found]
    trials = [store.trial(search, number) for search in searches]
    return {run for trial in trials if trial is not None for run in trial.runs}


def wanted(name: str) -> bool:
    return name.startswith(("searches/", "selections/", "confirmations/"))


def records(root: Path) -> dict[str, Any]:
    return {name: content for name, content in records_of(root).items() if wanted(name)}
