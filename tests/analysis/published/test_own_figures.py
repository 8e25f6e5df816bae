"""Figures 3 to 5 of the reality check have own records as the reality."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.helpers.made_experiments import written
from typer.testing import CliRunner

from levelfield.analysis import analyze
from levelfield.analysis.published import PublishedPoint, measured_improvements
from levelfield.cli.published import app
from levelfield.core.errors import UsageError
from levelfield.reports.figures import BarChart, PanelChart
from levelfield.reports.figures.own_reality import own_charts

MEANS = {"contrastive": 0.50, "triplet": 0.40, "margin": 0.60, "untrained": 0.1}


def values(chart, setting):
    return {name: bar.value for name, bar in chart.series[setting].items()}


@pytest.mark.slow
def test_the_three_figures_hold_the_records(tmp_path: Path) -> None:
    analysis = analyze(written(tmp_path / "cub", dataset="cub200", means=MEANS))
    charts = own_charts([analysis])
    assert set(charts) == {
        "map-at-r-cub200",
        "papers-versus-reality",
        "improvement-over-contrastive",
        "improvement-over-triplet",
    }
    scores, compared = charts["map-at-r-cub200"], charts["papers-versus-reality"]
    assert isinstance(scores, BarChart) and isinstance(compared, PanelChart)
    bars = scores.series["concatenated"]
    assert set(bars) == {"Contrastive", "Triplet", "Margin"}  # without the untrained network
    interval = analysis.interval("margin", "concatenated", "map_at_r")
    assert bars["Margin"].value == pytest.approx(100 * interval.mean)
    assert bars["Margin"].error == pytest.approx(100 * interval.half_width)

    papers, reality = compared.panels
    assert papers.traces[0].x[0] == 2006 and len(papers.traces[0].x) == 8
    assert dict(zip(reality.traces[0].x, reality.traces[0].y, strict=True))[2017] == pytest.approx(60, abs=1)

    over = charts["improvement-over-triplet"]
    mean = {name: analysis.interval(name, "separated", "precision_at_1").mean for name in MEANS}
    assert values(over, "separated") == {
        "CUB200": pytest.approx(100 * (mean["margin"] / mean["triplet"] - 1))
    }
    assert values(over, "papers")["CUB200"] > 0


@pytest.mark.slow
def test_other_data_have_what_needs_no_papers(tmp_path: Path) -> None:
    root = written(tmp_path / "made", means={"triplet": 0.4, "adaface": 0.5, "untrained": 0.1})
    arguments = ["figures", "--out", str(tmp_path / "out"), "--experiment", str(root)]
    output = CliRunner().invoke(app, arguments, catch_exceptions=False).output.replace("\n", " ")
    drawn = sorted(path.stem for path in (tmp_path / "out").glob("*.png"))
    assert drawn == ["improvement-over-triplet", "map-at-r-glyphs"]
    assert "not drawn: papers-versus-reality; it needs a dataset of the papers" in output
    assert "not drawn: improvement-over-contrastive" in output
    assert "not in papers-versus-reality: adaface" in output


@pytest.mark.slow
def test_two_experiments_on_one_dataset_are_refused(tmp_path: Path) -> None:
    analyses = [analyze(written(tmp_path / name, means=MEANS)) for name in ("one", "two")]
    with pytest.raises(UsageError, match="both use the dataset glyphs; give one of them"):
        own_charts(analyses)
    with pytest.raises(UsageError, match="has no precision_at_1; add it to `metrics`"):
        own_charts([analyze(written(tmp_path / "other", metrics=("map_at_r",)))])
    info = {"name": "recall_at_1", "label": "R@1", "unit": "percent", "higher_is_better": True}
    options: dict[str, Any] = {"metrics": ("recall_at_1",), "metric_infos": [info], "means": MEANS}
    recall = analyze(written(tmp_path / "recall", **options))
    assert "improvement-over-triplet" in own_charts([recall])  # the same number as precision_at_1


def test_a_baseline_that_scores_nothing_has_no_improvement_over_it() -> None:
    points = [PublishedPoint("triplet", "T", 2006, 0.0), PublishedPoint("margin", "M", 2017, 50.0)]
    assert measured_improvements("triplet", points) == {}
