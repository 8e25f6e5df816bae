from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from levelfield.analysis.published import PublishedPoint
from levelfield.core.errors import UsageError
from levelfield.reports.figures import Bar, BarChart, to_matplotlib, to_plotly, write_chart
from levelfield.reports.figures.published import (
    papers_versus_reality,
    published_charts,
    relative_improvement,
    score_bars,
)


@pytest.fixture(scope="module")
def charts():
    return published_charts()


def test_the_three_figures_of_the_paper(charts):
    assert set(charts) == {
        "map-at-r-cub200",
        "map-at-r-cars196",
        "map-at-r-sop",
        "papers-versus-reality",
        "improvement-over-contrastive",
        "improvement-over-triplet",
    }
    bars = charts["map-at-r-cub200"].series
    assert bars["concatenated"]["Contrastive"].value == 26.53
    assert bars["concatenated"]["Contrastive"].error == 0.29
    assert len(bars["separated"]) == 14


def test_papers_promise_more_than_reality_holds(charts):
    for baseline in ("contrastive", "triplet"):
        series = charts[f"improvement-over-{baseline}"].series
        for dataset in ("CUB200", "Cars196", "SOP"):
            assert series["papers"][dataset].value > series["concatenated"][dataset].value
    assert charts["improvement-over-contrastive"].series["papers"]["Cars196"].value > 100


def test_the_first_version_can_be_drawn_too():
    chart = published_charts("reality-check")["map-at-r-sop"]
    assert isinstance(chart, BarChart)
    bars = chart.series["separated"]
    assert len(bars) == 12
    assert bars["SoftTriple"].error is None


def test_records_of_our_own_are_drawn_the_same_way(tmp_path):
    scores = {
        "separated": {"mine": Bar(20.0, 0.5), "triplet": Bar(18.0)},
        "concatenated": {"mine": Bar(25.0)},
    }
    chart = score_bars(scores, title="Glyphs")
    assert chart.groups == ("mine", "triplet")
    png, html = write_chart(chart, tmp_path / "new", "glyphs")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "Glyphs" in html.read_text()
    assert (tmp_path / "new" / "plotly.min.js").exists()


def test_both_drawings_hold_every_bar():
    scores = {"separated": {"a": Bar(1.0, 0.1, "n = 1"), "b": Bar(2.0)}, "other": {"b": Bar(3.0)}}
    chart = score_bars(scores, title="t")
    axes = to_matplotlib(chart).axes[0]
    heights = [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]
    assert sorted(heights) == [1.0, 2.0, 3.0] and len(heights) == len(axes.patches)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]
    traces = to_plotly(chart).data
    assert [list(trace.y) for trace in traces] == [[1.0, 2.0], [3.0]]
    assert list(traces[0].error_y.array) == [0.1, 0.0]


def test_both_drawings_hold_every_point():
    papers = {"A": [PublishedPoint("x", "X", 2006, 30.0), PublishedPoint("y", "Y", 2019, 70.0)]}
    reality = {"A": [PublishedPoint("x", "X", 2006, 60.0)], "B": [PublishedPoint("y", "Y", 2019, 65.0)]}
    chart = papers_versus_reality(papers, reality)
    left, right = to_matplotlib(chart).axes
    assert left.get_title() == "what papers report"
    assert np.asarray(left.lines[0].get_ydata()).tolist() == [30.0, 70.0]
    assert np.asarray(right.lines[2].get_ydata()).tolist() == [65.0]
    markers = [trace for trace in to_plotly(chart).data if trace.mode == "markers"]
    assert [list(trace.y) for trace in markers] == [[30.0, 70.0], [60.0], [65.0]]


def test_there_must_be_something_to_draw():
    with pytest.raises(UsageError, match="at least one setting"):
        score_bars({}, title="nothing")
    with pytest.raises(UsageError, match="no scores for the panel"):
        papers_versus_reality({}, {})
    with pytest.raises(UsageError, match="no improvements"):
        relative_improvement({"papers": {"CUB200": {}}}, baseline="triplet")


def test_a_dataset_without_papers_leaves_a_gap():
    chart = relative_improvement(
        {"papers": {"A": {"x": 5.0}, "B": {}}, "ours": {"B": {"y": 1.0}}}, baseline="t"
    )
    assert isinstance(chart, BarChart)
    assert chart.groups == ("A", "B")
    assert list(chart.series["papers"]) == ["A"]
