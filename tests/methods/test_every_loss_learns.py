"""Every loss, with its default options, improves a small network on unseen glyphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield import losses
from levelfield.protocol import resolve_experiment
from levelfield.records import RunDirectory
from levelfield.train import RunJob, run_job

pytestmark = pytest.mark.slow

FACTOR = 1.3  # MAP@R on unseen classes, relative to the untrained network
EPOCHS, LONGER = 2, 8  # epochs of 75 steps
SLOW = {  # mostly margin losses whose class weights start at random
    "arcface",
    "cosface",
    "curricularface",
    "adaface",
    "magface",
    "subcenter_arcface",
    "proxy_proxy",
    "circle_class",
    "proxy_anchor",
    "group",
    "hist",
}
EXCUSED = {  # see their documentation
    "sphereface": "Without annealing, a network does not learn from scratch",
    "embedding_expansion": "a network learns slowly from scratch",
}


def values(loss: str) -> dict[str, Any]:
    method: dict[str, Any] = {"name": loss}
    if losses.registry[loss].card.own_lr:
        method["set"] = {"loss_lr": 0.1}  # the papers' learning rates are for a hundred epochs
    return {
        "name": "learns",
        "dataset": {"name": "glyphs", "size": 28, "samples_per_class": 8},
        "split": {"name": "class_disjoint", "folds": 2},
        "trunk": {"name": "conv4", "width": 8, "in_channels": 1},
        "head": {"size": 32},
        "transform": {"name": "none"},
        "batch": {"size": 32, "samples_per_class": 4, "samples_per_class_classification": 2},
        "optimizer": {"name": "adam", "lr": 5e-3},
        "training": {
            "iterations_per_epoch": 75,
            "max_epochs": LONGER if loss in SLOW else EPOCHS,
            "evaluate_every": 1,
            "patience": None,
        },
        "methods": [method],
        "hyperparameters": "defaults",
    }


@pytest.mark.parametrize("loss", [name for name in losses.registry.names() if name not in EXCUSED])
def test_a_loss_at_its_defaults_beats_the_untrained_network(loss: str, tmp_path: Path) -> None:
    resolved = resolve_experiment(lf.Experiment.build(**values(loss)))
    method = resolved.methods[0]
    chosen = {name: value for name, value in method.defaults().items() if name not in method.fixed}
    spec = resolved.run_spec(method, chosen, fold=0, seed=7)
    result = run_job(RunJob(spec, resolved.resources, tmp_path))
    before = RunDirectory(tmp_path).log()[0].scores["map_at_r"]
    assert result.status == "complete" and not result.collapse
    assert result.validation["map_at_r"] > FACTOR * before


def test_excused_losses_have_a_reason() -> None:
    for loss, why in EXCUSED.items():
        assert why in " ".join((losses.registry[loss].target.__doc__ or "").split())
