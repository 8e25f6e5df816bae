"""Draw a chart with matplotlib (PNG) and with plotly (an interactive page that needs no network)."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.published import Point
from levelfield.records import write_bytes, write_text
from levelfield.reports.figures.published import BarChart, TrendChart

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure

COLOURS = ("#2a6fbb", "#d1495b", "#3a9679", "#e0a030", "#7a5ea8")
NAMED = {"papers": "#7f7f7f", "separated": "#9dc3e6", "concatenated": "#2a6fbb"}
MARKERS = ("o", "s", "^", "D", "v")


def write(chart: BarChart | TrendChart, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write ``name``.png and ``name``.html into ``folder``; the paths of both.

    The pages of a folder share one copy of plotly's script beside them.
    """
    png, html = Path(folder) / f"{name}.png", Path(folder) / f"{name}.html"
    write_png(still(chart), png)
    write_text(html, interactive(chart).to_html(include_plotlyjs="directory"))
    script = html.with_name("plotly.min.js")
    if not script.exists():
        from plotly.offline import get_plotlyjs

        write_text(script, get_plotlyjs())
    return png, html


def write_png(figure: Figure, path: Path) -> None:
    """Write a matplotlib figure so that a reader never sees half of it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_bytes(path, buffer.getvalue())


def still(chart: BarChart | TrendChart) -> Figure:
    """The chart as a matplotlib figure."""
    return _still_bars(chart) if isinstance(chart, BarChart) else _still_trend(chart)


def interactive(chart: BarChart | TrendChart) -> go.Figure:
    """The chart as a plotly figure."""
    return _interactive_bars(chart) if isinstance(chart, BarChart) else _interactive_trend(chart)


def _still_bars(chart: BarChart) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(7.5, 0.75 * len(chart.groups)), 4.4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(chart.series)
    for index, (name, bars) in enumerate(chart.series.items()):
        places = [i for i, group in enumerate(chart.groups) if group in bars]
        shown = [bars[chart.groups[i]] for i in places]
        drawn = axes.bar(
            [i + (index - (len(chart.series) - 1) / 2) * width for i in places],
            [bar.value for bar in shown],
            width,
            yerr=[bar.error or 0.0 for bar in shown] if any(bar.error for bar in shown) else None,
            capsize=2,
            color=_colour(name, index),
            label=name,
        )
        axes.bar_label(drawn, [bar.label for bar in shown], fontsize=7, padding=1)
    slanted = len(chart.groups) > 5
    axes.set_xticks(range(len(chart.groups)), chart.groups, rotation=40 if slanted else 0)
    if slanted:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.axhline(0, color="black", lw=0.8)
    axes.set_ylabel(chart.y_label)
    axes.set_title(chart.title)
    figure.legend(loc="outside lower center", ncols=len(chart.series), fontsize=8)
    return figure


def _still_trend(chart: TrendChart) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5), layout="constrained")
    panels = figure.subplots(1, len(chart.panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (name, datasets) in zip(panels, chart.panels.items(), strict=True):
        for index, (dataset, points) in enumerate(datasets.items()):
            axes.plot(
                [point.year for point in points],
                [point.value for point in points],
                MARKERS[index % len(MARKERS)],
                color=_colour(dataset, index),
                label=dataset,
                alpha=0.8,
            )
            best = _best_by_year(points)
            axes.plot(list(best), list(best.values()), color=_colour(dataset, index), lw=1)
        axes.set_title(name)
        axes.set_xlabel("year of the method")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel(chart.y_label)
    panels[-1].legend()
    figure.suptitle(f"{chart.title} (lines join each year's best)")
    return figure


def _interactive_bars(chart: BarChart) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    for index, (name, bars) in enumerate(chart.series.items()):
        groups = [group for group in chart.groups if group in bars]
        figure.add_bar(
            name=name,
            x=groups,
            y=[bars[group].value for group in groups],
            error_y=_error_bars([bars[group].error for group in groups]),
            hovertext=[bars[group].remark for group in groups],
            text=[bars[group].label for group in groups],
            marker_color=_colour(name, index),
        )
    return figure.update_layout(
        title=chart.title,
        yaxis_title=chart.y_label,
        barmode="group",
        template="plotly_white",
        xaxis={"categoryorder": "array", "categoryarray": list(chart.groups)},
    )


def _interactive_trend(chart: TrendChart) -> go.Figure:
    from plotly.subplots import make_subplots

    figure = make_subplots(cols=len(chart.panels), shared_yaxes=True, subplot_titles=list(chart.panels))
    for column, datasets in enumerate(chart.panels.values(), start=1):
        for index, (dataset, points) in enumerate(datasets.items()):
            colour = _colour(dataset, index)
            figure.add_scatter(
                row=1,
                col=column,
                x=[point.year for point in points],
                y=[point.value for point in points],
                mode="markers",
                name=dataset,
                legendgroup=dataset,
                showlegend=column == 1,
                marker={"color": colour, "size": 9},
                hovertext=[f"{point.label} ({point.n} published)" for point in points],
            )
            best = _best_by_year(points)
            figure.add_scatter(
                row=1,
                col=column,
                x=list(best),
                y=list(best.values()),
                mode="lines",
                legendgroup=dataset,
                showlegend=False,
                hoverinfo="skip",
                line={"color": colour, "width": 1},
            )
    figure.update_xaxes(title="year of the method", matches="x")
    return figure.update_layout(title=chart.title, yaxis_title=chart.y_label, template="plotly_white")


def _error_bars(errors: Sequence[float | None]) -> dict[str, object] | None:
    return {"array": [error or 0.0 for error in errors], "color": "#333"} if any(errors) else None


def _colour(name: str, index: int) -> str:
    return NAMED.get(name, COLOURS[index % len(COLOURS)])


def _best_by_year(points: Sequence[Point]) -> dict[int, float]:
    years = sorted({point.year for point in points})
    return {year: max(point.value for point in points if point.year == year) for year in years}
