"""Experiments that share a cache directory get the same bits as with their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.warm import run_warm, start_levelfield

import levelfield as lf
from levelfield.records import Store
from levelfield.reports import write_report

pytestmark = pytest.mark.slow

SPLITS: dict[str, dict[str, Any]] = {
    "seed 0": {"name": "closed_set", "folds": 2, "seed": 0},
    "seed 1": {"name": "closed_set", "folds": 2, "seed": 1},
    "smaller test": {"name": "closed_set", "folds": 2, "seed": 0, "test_fraction": 0.25},
}


def values(split: str) -> dict[str, Any]:
    """Return an experiment with a frozen trunk; the split plans differ only in the test images."""
    from tests.conftest import tiny_values

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
    return (Store(out).report_directory / "results.csv").read_bytes()


def run_here(split: str, directory: Path, cache: Path, patch: pytest.MonkeyPatch) -> bytes:
    patch.setenv("LEVELFIELD_CACHE", str(cache))
    return scores(lf.run(lf.Experiment.build(**values(split)), directory / split).path)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Scores of each experiment with its own cache directory."""
    directory = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        return {split: _alone(split, directory, patch) for split in SPLITS}


def _alone(split: str, directory: Path, patch: pytest.MonkeyPatch) -> bytes:
    from levelfield.train import _setup

    patch.setattr(_setup, "_features", {})  # drop what other runs left in memory
    return run_here(split, directory, directory / "cache" / split, patch)


def test_the_experiments_differ(alone: dict[str, bytes]) -> None:
    assert len(set(alone.values())) == len(SPLITS)


def test_one_after_the_other(
    alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 1 after seed 0 used to score seed 0's test images, including its own training images."""
    together = {split: run_here(split, tmp_path, tmp_path / "cache", monkeypatch) for split in SPLITS}
    assert together == alone


def test_at_the_same_time(alone: dict[str, bytes], tmp_path: Path) -> None:
    """A different number of rows used to overwrite the file that another process had mapped."""
    environment = os.environ | {"LEVELFIELD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    processes = []
    for split in SPLITS:
        file = tmp_path / f"{split}.yaml"
        file.write_text(yaml.safe_dump(values(split)))
        run = ["run", str(file), "--out", str(tmp_path / split), "--quiet"]
        processes.append(start_levelfield(run, env=environment))
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
    """Trunk whose code is edited while its weights stay the same."""
    class Scaled(nn.Conv2d):
        def forward(self, maps):
            return super().forward(maps) * TRUNK_FACTOR
    return Trunk(Scaled(in_channels, 4, 3), name="edited_trunk", num_features=4)

@transforms.register("edited_transform")
def edited_transform(*, train):
    """Transform whose code is edited while its repr stays the same."""
    return darken

def darken(images, generator):
    return torch.stack(list(images)) // TRANSFORM_DIVISOR
'''

SCRIPT = """
import sys
from pathlib import Path
import levelfield as lf
from levelfield.models.features import cached_features
from levelfield.core.registry import load_plugin_file

for file in sys.argv[2:]:
    load_plugin_file(file)
embedder = lf.models.create_embedder(trunk=lf.models.create_trunk("edited_trunk", in_channels=1))
dataset = lf.data.load("toy_images")
for directory in ("shared", "alone " + Path(sys.argv[1]).name):
    store = cached_features(
        Path(sys.argv[1]).parent / directory, source=embedder, dataset=dataset, transform="edited_transform"
    )
    print(store.all().double().sum().item(), store.all()[0].tolist())
"""


def features_of(plugin: Path, script: Path, version: str, text: str) -> list[str]:
    """Return the features of the shared cache directory and of a new one, computed by a new process."""
    from tests.conftest import TOY_PLUGIN

    plugin.write_text(text)
    done = run_warm([str(script), str(script.parent / version), str(TOY_PLUGIN), str(plugin)])
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_edited_plugin_gets_features_of_its_own(tmp_path: Path) -> None:
    """An edit of a trunk's or a transform's code changes neither weights nor options nor name."""
    plugin, script = tmp_path / "my_plugin.py", tmp_path / "script.py"
    script.write_text(SCRIPT)
    seen = []
    for version, (factor, divisor) in enumerate([(1, 1), (2, 1), (2, 3)]):
        text = PLUGIN.replace("TRUNK_FACTOR", str(factor)).replace("TRANSFORM_DIVISOR", str(divisor))
        shared, alone = features_of(plugin, script, str(version), text)
        assert shared == alone
        seen.append(shared)
    assert len(set(seen)) == 3
