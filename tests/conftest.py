"""What every test leans on: the oracles, one cache for rendered data, and a tiny experiment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("LEVELFIELD_CACHE", str(HERE.parent / ".cache"))
os.environ.setdefault("COLUMNS", "200")

TOY_PLUGIN = HERE / "toy_plugin.py"
collect_ignore = ["delayed_plugin.py"]  # looking for doctests in it would register its loss among ours

# A busy machine is no fault of the code: nothing here asserts time.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def tiny() -> dict[str, Any]:
    """The values of an experiment that runs in about a second: 3 methods on 24 classes of toy images."""
    return tiny_values()


def tiny_values() -> dict[str, Any]:
    """See the fixture ``tiny``."""
    return {
        "name": "tiny",
        "plugins": [str(TOY_PLUGIN)],
        "dataset": {"name": "toy_images"},
        "split": {"name": "class_disjoint", "folds": 2},
        "trunk": {"name": "conv4", "width": 4, "in_channels": 1},
        "head": {"size": 8},
        "batch": {"size": 12, "samples_per_class": 3, "samples_per_class_classification": 2},
        "optimizer": {"name": "adam", "lr": 3e-3},
        "training": {"iterations_per_epoch": 4, "max_epochs": 4, "evaluate_every": 2, "patience": 3},
        "methods": ["contrastive", "triplet", "normalized_softmax"],
        "search": {"trials": 2, "sampler": "random"},
        "confirm": {"reruns": 2, "gallery": 0},
        "engine": {"workers": 0},
    }
