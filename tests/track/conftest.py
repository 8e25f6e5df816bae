"""One small finished experiment, which every test of a tracker copies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import levelfield as lf
from conftest import tiny_values


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {"methods": ["contrastive", "normalized_softmax"]}
    return lf.run(lf.Experiment.build(**tiny_values() | changes), tmp_path_factory.mktemp("finished") / "out")


@pytest.fixture
def records(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "records"))
