"""The reality check's Figures 3, 4 and 5, from published tables or from anyone's own.

Each function takes plain tables, so that records of our own runs can be drawn the same way, and returns a
chart that :func:`levelfield.reports.figures.write_chart` turns into a PNG and an interactive page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from levelfield.errors import UsageError
from levelfield.published import (
    Point,
    claimed,
    claimed_improvements,
    measured,
    measured_improvements,
    results,
    years,
)
from levelfield.reports.figures.charts import Axis, Bar, BarChart, Panel, PanelChart, Trace

DATASETS = {"cub200": "CUB200", "cars196": "Cars196", "sop": "SOP"}


def score_bars(scores: Mapping[str, Mapping[str, Bar]], *, title: str, metric: str = "MAP@R") -> BarChart:
    """Figure 3: a group of bars per method, a bar per setting, with intervals.

    Args:
        scores: Bars by setting ("separated", "concatenated"), then by method.
        title: What stands above.
        metric: Name of the measure, in percent.

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
    papers: Mapping[str, Sequence[Point]],
    reality: Mapping[str, Sequence[Point]],
    *,
    metric: str = "Precision@1",
) -> PanelChart:
    """Figure 4: scores over the years, as papers claim them beside as a fair comparison finds them.

    Args:
        papers: Points by dataset, from :func:`levelfield.published.claimed` or a table of your own.
        reality: Points by dataset, from :func:`levelfield.published.measured` or from records.
        metric: Name of the measure, in percent.

    Example:
        >>> points = {"CUB200": [Point("triplet", "Triplet", 2006, 36.1)]}
        >>> [panel.title for panel in papers_versus_reality(points, points).panels]
        ['what papers report', 'what a fair comparison finds']
    """
    panels = {"what papers report": papers, "what a fair comparison finds": reality}
    for name, datasets in panels.items():
        if not any(datasets.values()):
            raise UsageError(f'nothing to draw under "{name}"; give at least one dated score')
    shown = {dataset: number for number, dataset in enumerate(dict.fromkeys((*papers, *reality)))}
    axis = Axis("year of the method", whole=True)
    return PanelChart(
        title=f"Papers versus reality: {metric} over the years (lines join each year's best)",
        y=Axis(f"{metric} (%)"),
        panels=tuple(
            Panel(
                axis,
                tuple(
                    trace
                    for dataset, points in datasets.items()
                    for trace in _dated(dataset, points, shown[dataset])
                ),
                title=name,
            )
            for name, datasets in panels.items()
        ),
    )


def _dated(dataset: str, points: Sequence[Point], colour: int) -> tuple[Trace, Trace]:
    """A point per method, and a line through each year's best."""
    by_year: dict[float, float] = {}
    for point in sorted(points, key=lambda point: point.year):
        by_year[point.year] = max(point.value, by_year.get(point.year, point.value))
    dots = Trace(
        name=dataset,
        x=tuple(float(point.year) for point in points),
        y=tuple(point.value for point in points),
        colour=colour,
        remarks=tuple(f"{point.label} ({point.n} published)" for point in points),
    )
    return dots, Trace(dataset, tuple(by_year), tuple(by_year.values()), "line", colour, quiet=True)


def relative_improvement(
    improvements: Mapping[str, Mapping[str, Mapping[str, float]]], *, baseline: str
) -> BarChart:
    """Figure 5: mean relative improvement over a baseline, claimed beside measured.

    Args:
        improvements: Improvements in percent by series ("papers", "separated", ...), dataset and method.
        baseline: What they improve over.

    Example:
        >>> chart = relative_improvement({"papers": {"CUB200": {"a": 100.0, "b": 50.0}}}, baseline="triplet")
        >>> chart.series["papers"]["CUB200"]
        Bar(value=75.0, error=None, label='n = 2', remark='a +100%, b +50%')
    """
    series = {
        name: {dataset: _mean_bar(methods) for dataset, methods in datasets.items() if methods}
        for name, datasets in improvements.items()
    }
    groups = tuple(dict.fromkeys(dataset for bars in series.values() for dataset in bars))
    if not groups:
        raise UsageError(f"nothing improves over {baseline} in the tables given; give at least one method")
    return BarChart(
        title=f"Relative improvement over {baseline}: papers versus reality",
        y_label="mean relative improvement (%)",
        groups=groups,
        series=series,
    )


def published_charts(source: str = "reality-check-later") -> dict[str, BarChart | PanelChart]:
    """Figures 3, 4 and 5 as far as the published tables allow, by file name.

    ``source`` is the fair comparison: "reality-check" or "reality-check-later".

    Example:
        >>> sorted(published_charts())[:3]
        ['improvement-over-contrastive', 'improvement-over-triplet', 'map-at-r-cars196']
    """
    charts: dict[str, BarChart | PanelChart] = {}
    for dataset, label in DATASETS.items():
        scores = {
            setting: {
                years()[cell.method][0]: Bar(cell.value, cell.spread, remark=cell.cite)
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
    return Bar(fmean(methods.values()), label=f"n = {len(methods)}", remark=each)
