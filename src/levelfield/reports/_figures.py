"""Figures of an experiment, for the report page and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.analysis import Analysis, MetricInfo
from levelfield.records import Store
from levelfield.reports.figures import Chart, build_charts, write_chart, write_png, write_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page_charts(analysis: Analysis) -> list[Chart]:
    """Return the charts of the section "Charts"."""
    from levelfield.reports.figures import experiment, search

    found = (
        experiment.learning_curves(analysis),
        search.search_history(analysis),
    )
    return [chart for chart in found if chart is not None]


def structure_charts(analysis: Analysis) -> list[Chart]:
    """Return the charts of the section "Metrics and structure"."""
    from levelfield.reports.figures import experiment

    found = (
        experiment.metric_correlation(analysis),
        experiment.spectra(analysis),
        experiment.rho_against_score(analysis),
    )
    return [chart for chart in found if chart is not None]


def search_charts(analysis: Analysis) -> dict[str, list[Chart]]:
    """Return charts of importance and slices by method, if the search has enough trials."""
    from levelfield.reports.figures import search

    charts: dict[str, list[Chart]] = {}
    for result in analysis.comparison.trained:
        found = (search.method_importance(analysis, result), search.method_slices(analysis, result))
        charts[result.method] = [chart for chart in found if chart is not None]
    return {method: found for method, found in charts.items() if found}


def differences_diagram(analysis: Analysis) -> Figure | None:
    """Draw the methods by mean score, with bars over groups without a difference; None below 3 methods."""
    title = f"Mean {analysis.setting} {analysis.metric_info.axis}; a bar joins methods that do not differ"
    return draw_groups(analysis.means, analysis.groups, analysis.metric_info, title=title)


def draw_groups(
    means: Mapping[str, float], groups: Sequence[tuple[str, ...]], metric_info: MetricInfo, *, title: str
) -> Figure | None:
    """Draw names by mean score, best first, with bars over groups; None below 3 names."""
    from matplotlib.ticker import MaxNLocator

    from levelfield.reports.figures.rank_diagram import group_diagram

    places = {name: metric_info.scale * mean for name, mean in means.items()}
    if len(places) < 3:
        return None
    values = list(places.values())
    ticks = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(min(values), max(values))
    digits = 2 if metric_info.unit == "percent" else 4
    return group_diagram(
        places,
        groups,
        ends=(values[0], values[-1]),
        ticks={float(tick): f"{tick:g}" for tick in ticks if min(values) <= tick <= max(values)},
        title=title,
        digits=digits,
    )


def write_figures(analysis: Analysis, directory: Path | None = None) -> list[Path]:
    """Write all registered figures as ``NAME.png`` and ``NAME.html``.

    The diagram of differences is written as ``differences.png`` and ``differences.svg``.

    Args:
        analysis: Analysis of the experiment.
        directory: Output directory. Defaults to ``report/figures/`` of the experiment.

    Returns:
        Paths of the written files.
    """
    directory = directory or Store(analysis.root).report_directory / "figures"
    charts = build_charts(analysis)
    written = [path for name, chart in charts.items() for path in write_chart(chart, directory, name)]
    diagram = differences_diagram(analysis)
    if diagram is not None:
        written += [directory / "differences.png", directory / "differences.svg"]
        write_png(diagram, written[-2])
        write_svg(diagram, written[-1])
    return written
