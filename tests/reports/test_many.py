"""Reports of many methods, each searched several times."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.helpers.made_experiments import written

from levelfield.analysis import Analysis, analyze
from levelfield.core.space import Float
from levelfield.records import MetricInfo, Trial
from levelfield.reports import means_table, render_report, write_figures
from levelfield.reports._record_tables import selections_table
from levelfield.reports.figures import Trace, to_matplotlib, to_plotly
from levelfield.reports.figures.charts import COLORS, Axis, Panel, PanelChart
from levelfield.reports.figures.experiment import scores
from levelfield.reports.figures.search import importances, method_slices, search_history

pytestmark = pytest.mark.slow

Writer = Callable[..., Path]
MEANS = {f"m{number:02d}": 0.5 - 0.004 * number for number in range(22)} | {"untrained": 0.1}


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    root = tmp_path_factory.mktemp("many")
    return analyze(written(root, means=MEANS, repeats=3, reruns=4, trials=5, query_noise=0.02))


@pytest.fixture(scope="module")
def page(analysis: Analysis) -> str:
    return render_report(analysis)  # judges 253 pairs by each metric, which takes seconds


def test_every_table_counts_searches_and_reruns(analysis: Analysis, page: str) -> None:
    assert {row.cells[2].text for row in means_table(analysis).rows[:-1]} == {"12"}
    chosen = selections_table(analysis.comparison)
    assert [column.head for column in chosen.columns][:2] == ["method", "search"]
    assert [row.cells[1].text for row in chosen.rows[:4]] == ["1", "2", "3", "1"]
    assert [row.name for row in scores(analysis).rows] == list(analysis.means)
    assert "3 x 5 trials" in page and "4 reruns</b> of each search" in page


def test_slices_hold_the_trials_of_all_searches_and_the_history_says_which(analysis: Analysis) -> None:
    chart = method_slices(analysis, analysis.comparison.trained[0])
    assert chart is not None and len(chart.panels[0].traces[0].x) == 3 * 4, "one of five diverged"
    assert "the first of 3 searches" in search_history(analysis).title


def test_a_bar_joins_methods_of_whom_no_two_differ(analysis: Analysis) -> None:
    methods, groups = list(analysis.means), analysis.groups
    apart = {
        frozenset((pair.first, pair.second))
        for pair in analysis.pairs
        if pair.verdict not in ("undecided", "equivalent")
    }
    assert groups and apart
    for group in groups:
        start = methods.index(group[0])
        assert list(group) == methods[start : start + len(group)], "neighbors by their means"
        assert not any(frozenset((a, b)) in apart for a in group for b in group)
    for one, other in pairwise(methods):
        together = any({one, other} <= set(group) for group in groups)
        assert together == (frozenset((one, other)) not in apart)


def test_the_diagram_is_in_the_page_and_a_file(page: str, write_experiment: Writer, tmp_path: Path) -> None:
    assert page.count('<div class="diagram"') == 1 and "m21 (" in page
    written = write_figures(analyze(write_experiment("small")), tmp_path / "figures")
    svg = next(file for file in written if file.name == "differences.svg")
    assert "arcface (" in svg.read_text()


def test_a_color_that_comes_again_looks_different() -> None:
    lines = tuple(Trace(str(n), (0.0, 1.0), (0.0, 1.0), "line", n) for n in (0, len(COLORS)))
    chart = PanelChart("x", Axis("y"), (Panel(Axis("x"), lines),))
    assert [trace.line.dash for trace in to_plotly(chart).data] == ["solid", "dash"]
    assert [line.get_linestyle() for line in to_matplotlib(chart).axes[0].lines] == ["-", "--"]


def test_importance_follows_the_direction_of_the_metric() -> None:
    """If less is better, the important value is the one that the lowest scores share."""
    space = {"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)}
    points = [(i / 19, i * 7 % 20 / 19) for i in range(20)]
    # the lowest lie at one end of a; the highest are spread over a and lie at one end of b
    trials = [
        Trial(number=i, hyperparameters={"a": a, "b": b}, score=(a if a < 0.3 else 0.5 + b))
        for i, (a, b) in enumerate(points)
    ]
    first = {}
    for higher in (True, False):
        metric_info = MetricInfo(name="x", label="x", higher_is_better=higher)
        chart = importances("m", trials, space, metric_info=metric_info)
        assert chart is not None
        first[higher] = chart.groups[0]
    assert first == {True: "b", False: "a"}


def test_problems_beyond_a_few_are_folded(page: str) -> None:
    assert "more problems</summary>" in page, "nothing was opened by a ledger"
