"""Every loss, at its defaults, makes a small network better at new glyphs than it was untrained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield import losses
from levelfield.protocol import resolve
from levelfield.records import RunFolder
from levelfield.train import RunJob, run_job

FACTOR = 1.3  # of MAP@R on classes that were not trained on, against the untrained network
EPOCHS, LONGER = 2, 8  # of 75 steps
SLOW = {  # most of them margins between class weights that start at random: the angle has to close first
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
EXCUSED = {  # as their documentation says
    "sphereface": "annealing, and without it a network from scratch does not learn",
    "embedding_expansion": "a network from scratch learns slowly by it",
}


def values(loss: str) -> dict[str, Any]:
    method: dict[str, Any] = {"name": loss}
    if losses.registry[loss].card.own_lr:
        method["set"] = {"loss_lr": 0.1}  # papers' rates are for a hundred epochs, not for 150 steps
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
    resolved = resolve(lf.Experiment.build(**values(loss)))
    method = resolved.methods[0]
    chosen = {name: value for name, value in method.defaults().items() if name not in method.fixed}
    spec = resolved.run_spec(method, chosen, fold=0, seed=7)
    result = run_job(RunJob(spec, resolved.resources, tmp_path))
    before = RunFolder(tmp_path).log()[0].scores["map_at_r"]
    assert result.status == "complete" and not result.collapse
    assert result.validation["map_at_r"] > FACTOR * before


def test_who_is_excused_says_why() -> None:
    for loss, why in EXCUSED.items():
        assert why in " ".join((losses.registry[loss].target.__doc__ or "").split())
