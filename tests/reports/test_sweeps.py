"""A sweep's table: each metric relative to its maximum, then averaged."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from levelfield.analysis import MetricInfo
from levelfield.reports import sweeps
from levelfield.stats import t_interval

SCORES = {  # by batch size, method and metric
    32: {"triplet": {"precision_at_1": [0.4, 0.4], "map_at_r": [0.1, 0.1]}},
    64: {"triplet": {"precision_at_1": [0.5, 0.5], "map_at_r": [0.05, 0.05]}},
}
METRIC_INFOS = {
    "precision_at_1": MetricInfo(name="precision_at_1", label="P@1", unit="percent", higher_is_better=True),
    "map_at_r": MetricInfo(name="map_at_r", label="MAP@R", unit="percent", higher_is_better=True),
    "rho": MetricInfo(name="rho", label="rho"),
}


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Two values whose records are given by ``SCORES``."""

    def read_comparison(directory: Path) -> Any:
        results = [
            SimpleNamespace(
                method=method,
                scores={"separated": scores | {"rho": [3.0, 3.0]}},
                seed_interval=lambda setting, metric, scores=scores: t_interval(scores[metric]),
            )
            for method, scores in SCORES[int(directory.name)].items()
        ]
        return SimpleNamespace(
            results=results, trained=results, metrics=tuple(METRIC_INFOS), metric_infos=METRIC_INFOS
        )

    monkeypatch.setattr(sweeps, "read_comparison", read_comparison)
    experiment = SimpleNamespace(hyperparameters="defaults", training=SimpleNamespace(metric="map_at_r"))
    return [
        SimpleNamespace(
            factor="batch.size", value=size, label=str(size), directory=Path(str(size)), experiment=experiment
        )
        for size in SCORES
    ]


def test_relative_scores_are_means_over_metrics_of_shares_of_the_maximum(points: list[Any]) -> None:
    cells = sweeps.sweep_scores(points)
    assert {(c.value, c.metric_info.name): c.relative for c in cells} == {
        ("32", "precision_at_1"): pytest.approx(0.8),
        ("64", "precision_at_1"): 1.0,
        ("32", "map_at_r"): 1.0,
        ("64", "map_at_r"): pytest.approx(0.5),
    }
    assert sweeps.relative_mean(cells, "32", "triplet") == pytest.approx(0.9)
    assert sweeps.relative_mean(cells, "64") == pytest.approx(0.75)


def test_tables_and_figures_are_written(points: list[Any], tmp_path: Path) -> None:
    files = sweeps.write_sweep(points, tmp_path)
    assert all(file.stat().st_size > 0 for file in files)
    text = (tmp_path / "sweep.md").read_text()
    assert "| 32 | 90.0 | 90.0 |" in text and "test feedback" in text
    rows = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert len(rows) == 4 and rows[0]["relative_to_best"].startswith("0.8")
    assert {file.suffix for file in files} == {".md", ".csv", ".png", ".html"}
