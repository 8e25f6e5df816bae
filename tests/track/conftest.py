"""Small finished experiment, copied for each test of a tracker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import tiny_values

import levelfield as lf


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {"methods": ["contrastive", "normalized_softmax"]}
    experiment = lf.Experiment.build(**tiny_values() | changes)
    return lf.run(experiment, tmp_path_factory.mktemp("finished") / "out").path


@pytest.fixture
def records(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "records"))
