"""Drawing of charts with plotly, for pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from levelfield.reports.figures.charts import (
    Axis,
    BarChart,
    Chart,
    ContourChart,
    IntervalChart,
    MatrixChart,
    PanelChart,
    Trace,
    color,
)

MODES = {"points": "markers", "joined": "lines+markers"}
MARKERS = {"dot": "circle", "ring": "circle-open", "cross": "x-thin-open"}


def _text(words: str) -> str:
    """Escape text, because plotly interprets some HTML."""
    return escape(words, quote=False).replace("\n", "<br>")


def draw_plotly(chart: Chart) -> go.Figure:
    """Draw a chart as a plotly figure in the style of the report."""
    match chart:
        case PanelChart():
            figure = _panels(chart)
        case BarChart():
            figure = _bars(chart)
        case MatrixChart():
            figure = _matrix(chart)
        case ContourChart():
            figure = _contour(chart)
        case IntervalChart():
            figure = _intervals(chart)
    return figure.update_layout(
        title={"text": _text(chart.title), "font": {"size": 15}, "x": 0.01, "xanchor": "left"},
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        height=_height(chart),
        margin={"l": 60, "r": 20, "t": 80 if _has_titles(chart) else 50, "b": 50},
        legend=_legend(chart),
    )


def _height(chart: Chart) -> int:
    if isinstance(chart, IntervalChart):
        return 130 + 24 * len(chart.rows)
    return 520 if isinstance(chart, MatrixChart | ContourChart) else 400


def _legend(chart: Chart) -> dict[str, Any]:
    """Return the legend options: below panels, above bars (their slanted names need the space below)."""
    if isinstance(chart, BarChart):
        return {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0.55, "xanchor": "center"}
    return {"orientation": "h", "y": -0.2, "yanchor": "top"}


def _has_titles(chart: Chart) -> bool:
    return isinstance(chart, PanelChart) and any(panel.title for panel in chart.panels)


def _panels(chart: PanelChart) -> go.Figure:
    shared = all(panel.y is None and not panel.square for panel in chart.panels)
    figure = make_subplots(
        cols=len(chart.panels),
        shared_yaxes=shared,
        horizontal_spacing=0.03 if shared else 0.05,
        subplot_titles=[_text(panel.title) for panel in chart.panels] if _has_titles(chart) else None,
    )
    for column, (panel, traces) in enumerate(chart.legend(), start=1):
        for trace, in_legend in traces:
            figure.add_trace(_trace(trace, in_legend=in_legend), row=1, col=column)
        positions = [value for trace in panel.traces for value in trace.x]
        figure.update_xaxes(**_axis(panel.x, positions), row=1, col=column)
        own = _axis(panel.y or chart.y)
        if column > 1 and panel.y is None:
            own |= {"title": None}
        if panel.square:
            own |= {"scaleanchor": "x" if column == 1 else f"x{column}"}
        figure.update_yaxes(**own, row=1, col=column)
    return figure


def _trace(trace: Trace, *, in_legend: bool) -> go.Scatter:
    paint = color(trace.color)
    lines = {
        "color": paint,
        "width": 1.5,
        "shape": "hv" if trace.kind == "steps" else "linear",
        "dash": "dot" if trace.kind == "dotted" else "dash" if trace.color_repeats else "solid",
    }
    symbol = MARKERS["ring" if trace.color_repeats and trace.marker == "dot" else trace.marker]
    return go.Scatter(
        x=trace.x,
        y=trace.y,
        name=_text(trace.name),
        legendgroup=trace.name,
        showlegend=in_legend,
        mode=MODES.get(trace.kind, "lines"),
        marker={"color": paint, "size": 8, "symbol": symbol, "line": {"color": paint}},
        line=lines,
        opacity=0.2 if trace.faint else 0.8,
        hovertext=[_text(hover_text) for hover_text in trace.hover_texts] or None,
        hoverinfo="skip" if trace.kind == "steps" else None,
    )


def _axis(axis: Axis, values: Sequence[float] = ()) -> dict[str, Any]:
    options: dict[str, Any] = {"title": _text(axis.label), "type": "log" if axis.log else "linear"}
    if axis.ticks:
        options |= {
            "tickvals": list(range(len(axis.ticks))),
            "ticktext": [_text(tick) for tick in axis.ticks],
        }
    if axis.integer_ticks:
        span = max(values, default=0.0) - min(values, default=0.0)
        options |= {
            "tickformat": "d",
            "dtick": max(1, round(span / 12)),
        }  # otherwise ticks at 1, 1.5, 2 would be labeled 1, 2, 2
    return options


def _bars(chart: BarChart) -> go.Figure:
    figure = go.Figure()
    for number, (name, bars) in enumerate(chart.series.items()):
        groups = [group for group in chart.groups if group in bars]
        figure.add_bar(
            name=_text(name),
            x=[_text(group) for group in groups],
            y=[bars[group].value for group in groups],
            error_y=_error_bars([bars[group].error for group in groups]),
            hovertext=[_text(bars[group].hover_text) for group in groups],
            text=[_text(bars[group].label) for group in groups],
            marker_color=color(number, name),
        )
    return figure.update_layout(
        yaxis_title=_text(chart.y_label),
        barmode="group",
        showlegend=len(chart.series) > 1,
        xaxis={
            "categoryorder": "array",
            "categoryarray": [_text(group) for group in chart.groups],
            "tickangle": -40 if len(chart.groups) > 5 else None,
        },
    )


def _error_bars(errors: Sequence[float | None]) -> dict[str, object] | None:
    return {"array": [error or 0.0 for error in errors], "color": "#333"} if any(errors) else None


def _matrix(chart: MatrixChart) -> go.Figure:
    figure = go.Figure(
        go.Heatmap(
            z=chart.values,
            x=[_text(name) for name in chart.names],
            y=[_text(name) for name in chart.names],
            zmin=-1,
            zmax=1,
            colorscale="RdBu",
            texttemplate="%{z:.2f}",
            xgap=1,
            ygap=1,
        )
    )
    return figure.update_yaxes(autorange="reversed")


def _intervals(chart: IntervalChart) -> go.Figure:
    figure = go.Figure()
    for row in chart.rows:
        figure.add_scatter(
            x=[row.value],
            y=[_text(row.name)],
            error_x={"array": [row.half_width or 0.0], "color": color(row.color)},
            mode="markers",
            marker={"color": color(row.color), "size": 9},
            hovertext=[_text(f"{row.text} {row.note}".strip())],
            showlegend=False,
        )
    return figure.update_xaxes(title=_text(chart.x_label)).update_yaxes(autorange="reversed", automargin=True)


def _contour(chart: ContourChart) -> go.Figure:
    figure = go.Figure()
    x, y, score = chart.points.T
    if chart.surface is not None:
        figure.add_contour(
            x=chart.grid_x,
            y=chart.grid_y,
            z=chart.surface,
            colorscale="Blues",
            colorbar={"title": _text(chart.level)},
        )
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        marker={"color": "#1d2733", "size": 7, "line": {"color": "white", "width": 1}},
        hovertext=[f"{value:.2f}" for value in score],
        showlegend=False,
    )
    return figure.update_xaxes(**_axis(chart.x)).update_yaxes(**_axis(chart.y))
