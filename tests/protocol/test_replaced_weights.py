"""A weights file that is replaced under the same path within one process is another trunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

import levelfield as lf
from levelfield import models
from levelfield.analysis import read_comparison
from levelfield.protocol import resolve_experiment


def write_weights(file: Path, seed: int) -> None:
    trunk = models.create_trunk("conv4", width=4, in_channels=1, seed=seed)
    save_file({name: value.contiguous() for name, value in trunk.network.state_dict().items()}, file)


def scores(values: dict[str, Any], out: Path) -> dict[str, list[float]]:
    root = lf.run(lf.Experiment.build(**values), out).path
    return {
        result.method: result.scores["concatenated"]["map_at_r"] for result in read_comparison(root).results
    }


@pytest.mark.slow
def test_replaced_weights_give_what_they_give_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    file, copy = tmp_path / "weights.safetensors", tmp_path / "copy.safetensors"
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    tiny |= {"methods": ["triplet"], "trunk": tiny["trunk"] | {"mode": "frozen", "weights": str(file)}}
    write_weights(file, seed=1)
    first = resolve_experiment(lf.Experiment.build(**tiny)).trunk.weights
    before = scores(tiny, tmp_path / "before")
    write_weights(file, seed=2)
    write_weights(copy, seed=2)
    assert resolve_experiment(lf.Experiment.build(**tiny)).trunk.weights != first
    after = scores(tiny, tmp_path / "after")
    alone = scores(tiny | {"trunk": tiny["trunk"] | {"weights": str(copy)}}, tmp_path / "alone")
    assert after == alone != before
