"""Figures 3, 4 and 5 of the reality check, from published tables or own results.

Each function takes plain data and returns a chart. :func:`levelfield.reports.figures.write_chart` writes it
as PNG and as an interactive page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from levelfield.analysis.published import (
    PublishedPoint,
    claimed,
    claimed_improvements,
    measured,
    measured_improvements,
    results,
    years,
)
from levelfield.core.errors import UsageError
from levelfield.reports.figures.charts import Axis, Bar, BarChart, Panel, PanelChart, Trace

DATASETS = {"cub200": "CUB200", "cars196": "Cars196", "sop": "SOP"}


def score_bars(scores: Mapping[str, Mapping[str, Bar]], *, title: str, metric: str = "MAP@R") -> BarChart:
    """Return Figure 3: a group of bars per method, one bar per setting, with intervals.

    Args:
        scores: Bars by setting ("separated", "concatenated"), then by method.
        title: Title of the chart.
        metric: Label of the metric, in percent.

    Example:
        >>> chart = score_bars({"separated": {"triplet": Bar(18.8, 0.27)}}, title="CUB200")
        >>> chart.groups, chart.y_label
        (('triplet',), 'MAP@R (%)')
    """
    if not scores or not all(scores.values()):
        raise UsageError("a bar chart needs at least one setting with at least one method")
    groups = tuple(dict.fromkeys(method for bars in scores.values() for method in bars))
    return BarChart(title=title, y_label=f"{metric} (%)", groups=groups, series=scores)


def papers_versus_reality(
    papers: Mapping[str, Sequence[PublishedPoint]],
    reality: Mapping[str, Sequence[PublishedPoint]],
    *,
    metric: str = "Precision@1",
) -> PanelChart:
    """Return Figure 4: scores by year, as claimed by papers and as measured by a fair comparison.

    Args:
        papers: Claimed scores by dataset, such as :func:`levelfield.analysis.published.claimed`.
        reality: Measured scores by dataset, such as :func:`levelfield.analysis.published.measured`.
        metric: Label of the metric, in percent.

    Example:
        >>> points = {"CUB200": [PublishedPoint("triplet", "Triplet", 2006, 36.1)]}
        >>> [panel.title for panel in papers_versus_reality(points, points).panels]
        ['what papers report', 'what a fair comparison finds']
    """
    panels = {"what papers report": papers, "what a fair comparison finds": reality}
    for name, datasets in panels.items():
        if not any(datasets.values()):
            raise UsageError(f'no scores for the panel "{name}"; give at least one score with a year')
    shown = {dataset: number for number, dataset in enumerate(dict.fromkeys((*papers, *reality)))}
    axis = Axis("year of the method", integer_ticks=True)
    return PanelChart(
        title=f"Papers versus reality: {metric} over the years (lines join each year's best)",
        y=Axis(f"{metric} (%)"),
        panels=tuple(
            Panel(
                axis,
                tuple(
                    trace
                    for dataset, points in datasets.items()
                    for trace in _traces_by_year(dataset, points, shown[dataset])
                ),
                title=name,
            )
            for name, datasets in panels.items()
        ),
    )


def _traces_by_year(dataset: str, points: Sequence[PublishedPoint], color: int) -> tuple[Trace, Trace]:
    """Return points of all methods, and a line through the best of each year."""
    by_year: dict[float, float] = {}
    for point in sorted(points, key=lambda point: point.year):
        by_year[point.year] = max(point.value, by_year.get(point.year, point.value))
    dots = Trace(
        name=dataset,
        x=tuple(float(point.year) for point in points),
        y=tuple(point.value for point in points),
        color=color,
        hover_texts=tuple(f"{point.label} (mean of {point.n})" for point in points),
    )
    return dots, Trace(dataset, tuple(by_year), tuple(by_year.values()), "line", color, hide_legend=True)


def relative_improvement(
    improvements: Mapping[str, Mapping[str, Mapping[str, float]]], *, baseline: str
) -> BarChart:
    """Return Figure 5: mean relative improvement over a baseline, claimed and measured.

    Args:
        improvements: Improvements in percent by series ("papers", "separated", ...), dataset and method.
        baseline: Name of the baseline.

    Example:
        >>> chart = relative_improvement({"papers": {"CUB200": {"a": 100.0, "b": 50.0}}}, baseline="triplet")
        >>> chart.series["papers"]["CUB200"]
        Bar(value=75.0, error=None, label='n = 2', hover_text='a +100%, b +50%')
    """
    series = {
        name: {dataset: _mean_bar(methods) for dataset, methods in datasets.items() if methods}
        for name, datasets in improvements.items()
    }
    groups = tuple(dict.fromkeys(dataset for bars in series.values() for dataset in bars))
    if not groups:
        raise UsageError(f"no improvements over {baseline} are given; give at least one method")
    return BarChart(
        title=f"Relative improvement over {baseline}: papers versus reality",
        y_label="mean relative improvement (%)",
        groups=groups,
        series=series,
    )


def published_charts(source: str = "reality-check-later") -> dict[str, BarChart | PanelChart]:
    """Return Figures 3, 4 and 5 from the published tables, by file name.

    ``source`` is the fair comparison: "reality-check" or "reality-check-later".

    Example:
        >>> sorted(published_charts())[:3]
        ['improvement-over-contrastive', 'improvement-over-triplet', 'map-at-r-cars196']
    """
    charts: dict[str, BarChart | PanelChart] = {}
    for dataset, label in DATASETS.items():
        scores = {
            setting: {
                years()[cell.method][0]: Bar(cell.value, cell.spread, hover_text=cell.cite)
                for cell in results(source=source, dataset=dataset, setting=setting, metric="map_at_r")
                if cell.method in years() and cell.value is not None
            }
            for setting in ("concatenated", "separated")
        }
        charts[f"map-at-r-{dataset}"] = score_bars(scores, title=f"MAP@R on {label} ({source})")
    charts["papers-versus-reality"] = papers_versus_reality(
        {label: claimed(dataset) for dataset, label in DATASETS.items()},
        {label: measured(dataset, source=source) for dataset, label in DATASETS.items()},
    )
    for baseline in ("contrastive", "triplet"):
        improvements = {"papers": {v: claimed_improvements(baseline, k) for k, v in DATASETS.items()}}
        for setting in ("separated", "concatenated"):
            improvements[setting] = {
                label: measured_improvements(baseline, measured(dataset, source=source, setting=setting))
                for dataset, label in DATASETS.items()
            }
        charts[f"improvement-over-{baseline}"] = relative_improvement(improvements, baseline=baseline)
    return charts


def _mean_bar(methods: Mapping[str, float]) -> Bar:
    each = ", ".join(f"{name} {value:+.0f}%" for name, value in methods.items())
    return Bar(fmean(methods.values()), label=f"n = {len(methods)}", hover_text=each)
