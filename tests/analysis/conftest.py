"""Experiment directories: made from numbers, or written by a run of a few seconds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.made_experiments import write_experiment

import levelfield as lf

__all__ = ["write_experiment"]


@pytest.fixture(scope="session")
def values() -> dict[str, Any]:
    from tests.conftest import tiny_values

    tiny = tiny_values()
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return tiny | {"methods": ["triplet", "contrastive"]}


@pytest.fixture(scope="session")
def finished(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lf.run(lf.Experiment.build(**values), tmp_path_factory.mktemp("honest") / "runs").path


@pytest.fixture
def directory(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))
