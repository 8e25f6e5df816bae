"""Figures come from records, in two formats, and leave out what the records do not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelfield.analysis import MetricInfo, Trial, analyze
from levelfield.analysis.importance import compute_importance, infer_search_space
from levelfield.cli._app import run_app
from levelfield.core.files import read_json, write_json
from levelfield.core.space import Choice, Float, Int
from levelfield.records import RangeRecord, Search
from levelfield.reports.figures import build_charts, experiment, search, to_matplotlib, to_plotly

Writer = Callable[..., Path]


def trials(count: int = 20, **extra: Any) -> list[Trial]:
    generator = np.random.default_rng(1)
    found = []
    for number in range(count):
        point = {"margin": float(generator.uniform()), "rate": float(10 ** generator.uniform(-6, 0))} | extra
        score = 1 - (point["margin"] - 0.4) ** 2
        found.append(Trial(number=number, hyperparameters=point, score=score))
    return found


def tried(*points: dict[str, Any]) -> list[Trial]:
    return [Trial(number=number, hyperparameters=point) for number, point in enumerate(points)]


MAP_AT_R = MetricInfo(name="map_at_r", label="MAP@R", unit="percent", higher_is_better=True)
SPACE = {"margin": Float(0.0, 1.0), "rate": Float(1e-6, 1.0, log=True)}


def test_what_moves_the_score_is_most_important() -> None:
    found = compute_importance(SPACE, trials())
    assert list(found) == ["margin", "rate"] and found["margin"] > 0.6
    assert sum(found.values()) == pytest.approx(1.0)


def test_importance_needs_trials_and_variation() -> None:
    assert compute_importance(SPACE, trials(3)) == {}
    assert compute_importance({"fixed": Int(1, 3)}, trials(fixed=2)) == {}
    assert compute_importance({"margin": SPACE["margin"], "fixed": Int(1, 3)}, trials(fixed=2)) == {
        "margin": 1.0
    }


def test_the_searched_space_is_the_one_on_record() -> None:
    known = {"margin": RangeRecord.from_dimension(Float(0.0, 1.0))}
    search = Search.model_construct(space=known)  # type: ignore[call-arg]  # nothing else is read
    assert infer_search_space(search, tried({"margin": 0.1}, {"margin": 0.2})) == {"margin": Float(0.0, 1.0)}


def test_a_space_that_is_not_on_record_is_what_was_tried() -> None:
    points = tried({"a": 1, "b": 1e-5, "c": "hard", "d": 0.5}, {"a": 4, "b": 0.1, "c": "soft", "d": 0.7})
    assert infer_search_space(None, points) == {
        "a": Int(1, 4),
        "b": Float(1e-5, 0.1, log=True),
        "c": Choice("hard", "soft"),
        "d": Float(0.5, 0.7),
    }


def test_history_holds_the_best_so_far() -> None:
    chart = search.history({"triplet": trials()}, metric_info=MAP_AT_R)
    points, best = chart.panels[0].traces
    assert best.y == tuple(np.maximum.accumulate(points.y)) and best.hide_legend


def test_the_best_so_far_follows_the_direction() -> None:
    metric_info = MetricInfo(name="alignment", label="alignment", higher_is_better=False)
    points, best = search.history({"triplet": trials()}, metric_info=metric_info).panels[0].traces
    assert best.y == tuple(np.minimum.accumulate(points.y)) and max(points.y) <= 1  # not percent


def test_slices_have_a_panel_per_hyperparameter() -> None:
    chart = search.slices(
        "triplet", trials(kind="a"), {**SPACE, "kind": Choice("b", "a")}, metric_info=MAP_AT_R
    )
    assert [panel.x.label for panel in chart.panels] == ["margin", "rate", "kind"]
    assert [panel.x.log for panel in chart.panels] == [False, True, False]
    assert set(chart.panels[2].traces[0].x) == {1.0}


def test_the_surface_passes_through_what_was_tried() -> None:
    chart = search.contour("triplet", trials(200), SPACE, metric_info=MAP_AT_R)
    assert (
        chart is not None and chart.surface is not None and (chart.x.label, chart.y.log) == ("margin", True)
    )
    column = np.abs(chart.grid_x - 0.4).argmin()
    assert np.nanmax(chart.surface) <= 100 and np.nanmedian(chart.surface[:, column]) > 99


def test_trials_on_a_line_have_no_surface() -> None:
    points = [trial.hyperparameters for trial in trials()]
    on_a_line = [
        Trial(number=number, hyperparameters=point | {"other": point["margin"]}, score=point["margin"])
        for number, point in enumerate(points)
    ]
    space = {"margin": Float(0.0, 1.0), "other": Float(0.0, 1.0)}
    chart = search.contour("triplet", on_a_line, space, metric_info=MAP_AT_R)
    assert chart is not None and chart.surface is None
    to_matplotlib(chart), to_plotly(chart)


@pytest.mark.slow
def test_correlation_is_over_models(write_experiment: Writer) -> None:
    chart = experiment.metric_correlation(analyze(write_experiment()))
    assert chart is not None and chart.names == ("P@1", "RP", "MAP@R") and "48 models" in chart.title
    assert np.diag(chart.values) == pytest.approx(1.0)
    assert experiment.metric_correlation(analyze(write_experiment("single", metrics=("map_at_r",)))) is None


@pytest.mark.slow
def test_spectra_are_shares_and_left_out_where_not_recorded(write_experiment: Writer) -> None:
    root = write_experiment()
    chart = experiment.spectra(analyze(root))
    assert chart is not None and len(chart.panels[0].traces) == 4
    assert sum(chart.panels[0].traces[0].y) == pytest.approx(1.0, abs=1e-5)
    for file in root.glob("confirmations/*/*.safetensors"):
        file.unlink()
    assert experiment.spectra(analyze(root)) is None


@pytest.mark.slow
def test_without_logs_of_runs_there_are_no_learning_curves(write_experiment: Writer) -> None:
    """Published records may not have ``runs/``; they had an empty figure."""
    root = write_experiment()
    for file in root.glob("searches/*/trial-*.json"):
        write_json(file, read_json(file) | {"runs": ["gone"]})
    assert experiment.learning_curves(analyze(root)) is None


def test_whole_numbers_are_not_repeated_on_an_axis() -> None:
    figure = to_plotly(search.history({"triplet": trials(5)}, metric_info=MAP_AT_R))
    assert figure.layout.xaxis.dtick == 1


@pytest.mark.slow
def test_every_chart_is_drawn_both_ways(write_experiment: Writer) -> None:
    charts = build_charts(analyze(write_experiment(means={"triplet": 0.5, "arcface": 0.4, "untrained": 0.1})))
    kinds = {"history", "slice", "contour", "importance"}
    assert {f"triplet-{kind}" for kind in kinds} | {"scores", "spectra", "metric-correlation"} <= set(charts)
    for chart in charts.values():
        assert to_plotly(chart).data and to_matplotlib(chart).axes


@pytest.mark.slow
def test_the_command_writes_pages_that_load_nothing_from_elsewhere(
    write_experiment: Writer, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_experiment(means={"triplet": 0.5, "untrained": 0.1})
    assert run_app(["report", str(root), "--figures"]) == 0
    assert "Figures: " in capsys.readouterr().out
    directory = root / "report" / "figures"
    assert (directory / "triplet-contour.png").read_bytes().startswith(b"\x89PNG")
    page = (directory / "triplet-contour.html").read_text()
    assert 'src="plotly.min.js"' in page and "cdn" not in page
    assert (directory / "plotly.min.js").exists()
