"""``levelfield study structure``: training embeddings of every mode against test scores."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelfield as lf
from levelfield.core.errors import UsageError
from levelfield.studies import structure
from levelfield.studies.structure import METRICS, MethodStructure, correlations


def run(tiny: dict[str, Any], out: Path, **trunk: Any) -> Path:
    tiny["trunk"] |= trunk
    tiny["training"] = {"iterations_per_epoch": 1, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    tiny |= {"search": {"trials": 1}, "confirm": {"reruns": 1, "gallery": 0}}
    return lf.run(tiny, out).path


@pytest.mark.slow
@pytest.mark.parametrize("trunk", [{}, {"mode": "frozen"}, {"mode": "tail", "from": "2"}])
def test_every_model_is_measured_on_its_training_images(
    trunk: dict[str, str], tiny: dict[str, Any], tmp_path: Path
) -> None:
    root = run(tiny, tmp_path / "out", **trunk)
    out = tmp_path / "study"
    out.mkdir()
    found = structure.run_study(root, out)
    assert [each.method for each in found] == tiny["methods"]
    for each in found:
        assert each.models == 2  # one rerun of two folds
        assert each.metrics.keys() == set(METRICS) and 0 < each.metrics["pi_inter"] <= 2
        assert math.isclose(float(each.spectrum.sum()), 1.0, rel_tol=1e-6)
        assert math.isclose(float(each.class_spectrum.sum()), 1.0, rel_tol=1e-6)
    assert [each["method"] for each in json.loads((out / "structure.json").read_text())] == tiny["methods"]
    assert "rank correlation" in (out / "structure.md").read_text()
    assert (out / "structure-scores.png").exists() and (out / "structure-spectra.html").exists()


@pytest.mark.slow
def test_models_without_weights_are_named(tiny: dict[str, Any], tmp_path: Path) -> None:
    root = run(tiny, tmp_path / "out")
    for file in root.rglob("best.safetensors"):
        file.unlink()
    with pytest.raises(UsageError, match="has no weights; give the directory"):
        structure.run_study(root, tmp_path)


def test_correlations_leave_infinite_metrics_out() -> None:
    spectrum = np.array([1.0])
    values = [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3), (math.inf, 0.0)]
    found = [
        MethodStructure(str(k), 1, score, dict.fromkeys(METRICS, value), spectrum, spectrum)
        for k, (value, score) in enumerate(values)
    ]
    assert correlations(found)["rho"] == pytest.approx(1.0)
    assert math.isnan(correlations(found[:2])["rho"])
