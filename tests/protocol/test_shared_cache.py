"""Experiments that share a cache folder get the bits that each of them gets alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelfield as lf
from levelfield.records import Store
from levelfield.reports import write_report

SPLITS: dict[str, dict[str, Any]] = {
    "seed 0": {"name": "closed_set", "folds": 2, "seed": 0},
    "seed 1": {"name": "closed_set", "folds": 2, "seed": 1},
    "smaller test": {"name": "closed_set", "folds": 2, "seed": 0, "test_fraction": 0.25},
}


def values(split: str) -> dict[str, Any]:
    """Frozen trunk, closed set: the plans differ only in which images are for the test."""
    from conftest import tiny_values

    return tiny_values() | {
        "dataset": {"name": "toy_images", "samples": 16},
        "split": SPLITS[split],
        "trunk": {"name": "conv4", "width": 4, "in_channels": 1, "mode": "frozen"},
        "methods": ["contrastive"],
        "search": {"trials": 1, "sampler": "random"},
        "confirm": {"reruns": 1},
    }


def scores(out: Path) -> bytes:
    write_report(out)
    return (Store(out).report_folder / "results.csv").read_bytes()


def run_here(split: str, folder: Path, cache: Path, patch: pytest.MonkeyPatch) -> bytes:
    patch.setenv("LEVELFIELD_CACHE", str(cache))
    return scores(lf.run(lf.Experiment.build(**values(split)), folder / split))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The scores of each experiment with a cache folder of its own."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        return {split: _alone(split, folder, patch) for split in SPLITS}


def _alone(split: str, folder: Path, patch: pytest.MonkeyPatch) -> bytes:
    from levelfield.train import _workspace

    patch.setattr(_workspace, "_features", {})  # nor anything left in memory by the others
    return run_here(split, folder, folder / "cache" / split, patch)


def test_the_experiments_differ(alone: dict[str, bytes]) -> None:
    assert len(set(alone.values())) == len(SPLITS)


def test_one_after_the_other(
    alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 1 after seed 0 used to score seed 0's test images, its own training images among them."""
    together = {split: run_here(split, tmp_path, tmp_path / "cache", monkeypatch) for split in SPLITS}
    assert together == alone


def test_at_the_same_time(alone: dict[str, bytes], tmp_path: Path) -> None:
    """Another number of rows used to overwrite the file that the other process had mapped."""
    environment = os.environ | {"LEVELFIELD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    processes = []
    for split in SPLITS:
        file = tmp_path / f"{split}.yaml"
        file.write_text(yaml.safe_dump(values(split)))
        command = [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(tmp_path / split)]
        processes.append(subprocess.Popen([*command, "--quiet"], env=environment))
    assert [process.wait() for process in processes] == [0] * len(SPLITS)
    assert {split: scores(tmp_path / split) for split in SPLITS} == alone


PLUGIN = '''
import torch
from torch import nn
import levelfield as lf
from levelfield.models import Trunk
from levelfield.data import transforms

@lf.models.register("edited_trunk")
def edited_trunk(*, in_channels=1):
    """A trunk whose code will be edited, without a change of its weights."""
    class Scaled(nn.Conv2d):
        def forward(self, maps):
            return super().forward(maps) * TRUNK_FACTOR
    return Trunk(Scaled(in_channels, 4, 3), name="edited_trunk", num_features=4)

@transforms.register("edited_transform")
def edited_transform(*, train):
    """A transform whose code will be edited, without a change of how it prints itself."""
    return darken

def darken(images, generator):
    return torch.stack(list(images)) // TRANSFORM_DIVISOR
'''

SCRIPT = """
import sys
from pathlib import Path
import levelfield as lf
from levelfield.models.features import cached_features
from levelfield.registry import load_plugin_file

for file in sys.argv[2:]:
    load_plugin_file(file)
embedder = lf.models.build(trunk=lf.models.create_trunk("edited_trunk", in_channels=1))
dataset = lf.data.load("toy_images")
for folder in ("shared", "alone " + Path(sys.argv[1]).name):
    store = cached_features(
        Path(sys.argv[1]).parent / folder, source=embedder, dataset=dataset, transform="edited_transform"
    )
    print(store.all().double().sum().item(), store.all()[0].tolist())
"""


def features_of(plugin: Path, script: Path, version: str, text: str) -> list[str]:
    """The features of the shared cache folder and of a fresh one, computed by a new process."""
    from conftest import TOY_PLUGIN

    plugin.write_text(text)
    command = [sys.executable, str(script), str(script.parent / version), str(TOY_PLUGIN), str(plugin)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_an_edited_plugin_gets_features_of_its_own(tmp_path: Path) -> None:
    """Neither a trunk's nor a transform's code is in its weights, its options or its name."""
    plugin, script = tmp_path / "my_plugin.py", tmp_path / "script.py"
    script.write_text(SCRIPT)
    seen = []
    for version, (factor, divisor) in enumerate([(1, 1), (2, 1), (2, 3)]):
        text = PLUGIN.replace("TRUNK_FACTOR", str(factor)).replace("TRANSFORM_DIVISOR", str(divisor))
        shared, alone = features_of(plugin, script, str(version), text)
        assert shared == alone
        seen.append(shared)
    assert len(set(seen)) == 3
