"""Charts drawn with plotly, for pages."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from levelfield.reports.figures.charts import Axis, ContourChart, MatrixChart, PanelChart, Trace
from levelfield.reports.figures.published import BarChart
from levelfield.reports.figures.published_draw import interactive as interactive_bars

COLOURS = (
    *("#2a6fbb", "#d1495b", "#3a9679", "#e0a030", "#7a5ea8", "#5b6770", "#c06c9a", "#7f8c2f"),
    *("#00a3c4", "#8c5a2b", "#a3c1e0", "#e59aa4", "#93cbb6", "#c9b3e0", "#1d2733"),
)
Chart = PanelChart | MatrixChart | ContourChart | BarChart


def interactive(chart: Chart) -> go.Figure:
    """Any chart as a plotly figure in the style of the report."""
    match chart:
        case PanelChart():
            figure = _panels(chart)
        case MatrixChart():
            figure = _matrix(chart)
        case ContourChart():
            figure = _contour(chart)
        case BarChart():
            figure = interactive_bars(chart).update_layout(showlegend=len(chart.series) > 1)
    return figure.update_layout(
        title={"text": chart.title, "font": {"size": 15}, "x": 0.01, "xanchor": "left"},
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        height=520 if isinstance(chart, MatrixChart | ContourChart) else 400,
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        legend={"orientation": "h", "y": -0.2},
    )


def _panels(chart: PanelChart) -> go.Figure:
    figure = make_subplots(cols=len(chart.panels), shared_yaxes=True, horizontal_spacing=0.03)
    for column, (axis, traces) in enumerate(chart.panels, start=1):
        for trace in traces:
            figure.add_trace(_trace(trace), row=1, col=column)
        figure.update_xaxes(**_axis(axis), row=1, col=column)
    return figure.update_yaxes(**_axis(chart.y) | {"title": None}).update_yaxes(
        title=chart.y.label, row=1, col=1
    )


def _trace(trace: Trace) -> go.Scatter:
    colour = COLOURS[trace.colour % len(COLOURS)]
    return go.Scatter(
        x=trace.x,
        y=trace.y,
        name=trace.name,
        legendgroup=trace.name,
        showlegend=not trace.quiet,
        mode="markers" if trace.kind == "points" else "lines",
        marker={"color": colour, "size": 8},
        line={"color": colour, "width": 1.5, "shape": "hv" if trace.kind == "steps" else "linear"},
        opacity=0.8,
        hovertext=trace.remarks or None,
        hoverinfo="skip" if trace.kind == "steps" else None,
    )


def _axis(axis: Axis) -> dict[str, Any]:
    options: dict[str, Any] = {"title": axis.label, "type": "log" if axis.log else "linear"}
    if axis.ticks:
        options |= {"tickvals": list(range(len(axis.ticks))), "ticktext": list(axis.ticks)}
    if axis.label in ("trial", "epoch"):
        options |= {"tickformat": "d"}
    return options


def _matrix(chart: MatrixChart) -> go.Figure:
    figure = go.Figure(
        go.Heatmap(
            z=chart.values,
            x=chart.names,
            y=chart.names,
            zmin=-1,
            zmax=1,
            colorscale="RdBu",
            texttemplate="%{z:.2f}",
            xgap=1,
            ygap=1,
        )
    )
    return figure.update_yaxes(autorange="reversed")


def _contour(chart: ContourChart) -> go.Figure:
    figure = go.Figure()
    x, y, score = chart.points.T
    if chart.surface is not None:
        figure.add_contour(
            x=chart.grid_x,
            y=chart.grid_y,
            z=chart.surface,
            colorscale="Blues",
            colorbar={"title": chart.level},
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
