"""Losses and miners of pytorch-metric-learning run through the whole protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.core.errors import UsageError
from levelfield.protocol import resolve_experiment

pytestmark = pytest.mark.slow

pytest.importorskip("pytorch_metric_learning")


def test_peers_run_through_the_whole_protocol(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["methods"] = [
        {"name": "their circle", "loss": "pml:CircleLoss", "set": {"m": 0.4, "gamma": 80}},
        {"name": "their arcface", "loss": "pml:ArcFaceLoss", "set": {"loss_lr": 0.01, "scale": 32}},
        {"name": "their miner", "loss": "multi_similarity", "miner": "pml:MultiSimilarityMiner"},
    ]
    tiny["search"]["trials"] = 1
    results = {
        result.method: result
        for result in read_comparison(lf.run(lf.Experiment.build(**tiny), tmp_path / "out").path).results
    }
    for method in tiny["methods"]:
        assert len(results[method["name"]].scores["separated"]["map_at_r"]) == 2


def test_an_unknown_peer_is_refused_when_the_experiment_is_loaded(tiny: dict[str, Any]) -> None:
    tiny["methods"] = [{"name": "x", "loss": "pml:CircelLoss"}]
    with pytest.raises(UsageError, match="CircleLoss"):
        resolve_experiment(lf.Experiment.build(**tiny))
