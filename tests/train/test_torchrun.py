"""Two ranks give the losses and scores of one process, up to rounding."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelfield as lf

# A loss without weights of its own, and one whose weights all ranks train.
METHODS = [
    {"name": "triplet", "set": {"margin": 0.2}},
    {"name": "normalized_softmax", "set": {"temperature": 0.1, "loss_lr": 0.01}},
]


@pytest.mark.slow
def test_two_ranks_give_the_scores_of_one_process(tmp_path: Path, tiny: dict[str, Any]) -> None:
    tiny |= {"methods": METHODS, "confirm": {"reruns": 1}, "trunk": tiny["trunk"] | {"freeze_bn": True}}
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    alone, together = tmp_path / "alone", tmp_path / "together"
    lf.run(tiny, alone)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "levelfield"]
    arguments = ["run", str(file), "--quiet", "--out", str(together), "--set", "engine.name=torchrun"]
    done = subprocess.run(
        [sys.executable, *torchrun, *arguments],
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for expected, found in zip(read(alone), read(together), strict=True):
        assert float(found["mean"]) == pytest.approx(float(expected["mean"]), abs=0.02)
    for run in (alone / "runs").iterdir():
        twin = together / "runs" / run.name
        one, two = (
            yaml.safe_load((directory / "epochs.jsonl").read_text().splitlines()[1])
            for directory in (run, twin)
        )
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-3)


def read(directory: Path) -> list[dict[str, str]]:
    with (directory / "report" / "results.csv").open() as file:
        return list(csv.DictReader(file))
