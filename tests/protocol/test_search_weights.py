"""The weights of a search run are deleted when its trial is on record; all others stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.protocol import _plan, plan
from levelfield.records import Store
from levelfield.train import Speed, checkpoint


def runs_of(root: Path) -> tuple[set[str], set[str]]:
    """Return the runs of the searches and those of the reruns."""
    store = Store(root)
    searched = {
        run
        for directory in (root / "searches").iterdir()
        for trial in store.trials(directory.name)
        for run in trial.runs
    }
    return searched, {run.path.name for run in store.runs()} - searched


def with_weights(root: Path) -> set[str]:
    return {run.path.name for run in Store(root).runs() if checkpoint.has_weights(run.path)}


def test_only_reruns_keep_their_weights(finished_tiny: Callable[..., Path]) -> None:
    root = finished_tiny()
    searched, confirmed = runs_of(root)
    assert searched and confirmed and with_weights(root) == confirmed
    lf.export(root, root.parent / "model", method="triplet")


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
def test_what_a_kill_left_is_deleted_unless_it_is_asked_for(
    keep: bool, finished_tiny: Callable[..., Path], tiny: dict[str, Any]
) -> None:
    root = finished_tiny()
    searched, confirmed = runs_of(root)
    left = sorted(searched)[0]
    (root / "runs" / left / checkpoint.WEIGHTS_FILE).write_bytes(b"weights")
    tiny["search"] |= {"keep_weights": keep}
    lf.run(tiny, root)
    assert with_weights(root) == confirmed | ({left} if keep else set())


def test_the_plan_shows_the_disk_at_its_peak(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty trials of two folds hold the weights of one trial per search, not of a hundred runs."""
    weights, state = 10**8, 3 * 10**8
    speed = Speed(
        step=1, steps=1, evaluation=1, image=1, feature=0, weights=weights, state=state, feature_bytes=0
    )
    monkeypatch.setattr(_plan, "measure_speed", lambda *_: speed)
    tiny |= {"methods": ["triplet"], "search": {"trials": 50}, "confirm": {"reruns": 3}}
    dropped = plan(lf.Experiment.build(**tiny), tmp_path / "new")
    tiny["search"]["keep_weights"] = True
    kept = plan(lf.Experiment.build(**tiny), tmp_path / "new")
    assert round(dropped.disk / weights) == 3 * 2
    assert round(dropped.disk_peak / weights) == 3 * 2 + 2 + 3
    assert round(kept.disk / weights) == 50 * 2 + 3 * 2
    assert kept.disk_peak == kept.disk + state


def test_a_plan_knows_the_size_of_weights_that_were_deleted(
    finished_tiny: Callable[..., Path], tiny: dict[str, Any]
) -> None:
    root = finished_tiny()
    tiny["search"] |= {"trials": 3}
    known = plan(lf.Experiment.build(**tiny), root).disk
    for run in runs_of(root)[1]:
        checkpoint.delete_weights(root / "runs" / run)
    estimated = plan(lf.Experiment.build(**tiny), root).disk
    assert known == pytest.approx(estimated, rel=0.2)
