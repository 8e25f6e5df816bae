"""Two ranks train what one process trains: same losses, same scores up to rounding."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.mark.parametrize(
    "method",
    [
        {"name": "triplet", "set": {"margin": 0.2}},
        {"name": "normalized_softmax", "set": {"temperature": 0.1, "loss_lr": 0.01}},
    ],
    ids=lambda method: str(method["name"]),
)
def test_two_ranks_give_the_scores_of_one_process(tmp_path: Path, tiny: dict[str, Any], method: Any) -> None:
    tiny |= {"methods": [method], "confirm": {"reruns": 1}, "trunk": tiny["trunk"] | {"freeze_bn": True}}
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    arguments = ["run", str(file), "--quiet", "--out"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "levelfield", *arguments, str(alone)],
        check=True,
        env=environment,
        capture_output=True,
    )
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "levelfield"]
    done = subprocess.run(
        [sys.executable, *torchrun, *arguments, str(together), "--set", "engine.name=torchrun"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for expected, found in zip(read(alone), read(together), strict=True):
        assert float(found["mean"]) == pytest.approx(float(expected["mean"]), abs=0.02)
    for run in (alone / "runs").iterdir():
        twin = together / "runs" / run.name
        one, two = (
            yaml.safe_load((folder / "epochs.jsonl").read_text().splitlines()[1]) for folder in (run, twin)
        )
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-3)


def read(folder: Path) -> list[dict[str, str]]:
    with (folder / "report" / "results.csv").open() as file:
        return list(csv.DictReader(file))
