"""Charts drawn with matplotlib, for PNG."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from levelfield.reports.figures._interactive import COLOURS, Chart
from levelfield.reports.figures.charts import Axis, ContourChart, MatrixChart, PanelChart, Trace
from levelfield.reports.figures.published import BarChart
from levelfield.reports.figures.published_draw import still as still_bars


def still(chart: Chart) -> Figure:
    """Any chart as a matplotlib figure."""
    match chart:
        case PanelChart():
            return _panels(chart)
        case MatrixChart():
            return _matrix(chart)
        case ContourChart():
            return _contour(chart)
        case BarChart():
            figure = still_bars(chart)
            if len(chart.series) == 1:
                for legend in figure.legends:
                    legend.remove()
            return figure


def _panels(chart: PanelChart) -> Figure:
    count = len(chart.panels)
    figure = Figure(figsize=(8 if count == 1 else 1.5 + 3 * count, 4.6), layout="constrained")
    row = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axes, (axis, traces) in zip(row, chart.panels, strict=True):
        for trace in traces:
            _trace(axes, trace)
        _label(axes, "x", axis)
        axes.grid(alpha=0.3)
    _label(row[0], "y", chart.y)
    figure.suptitle(chart.title, fontsize=11)
    names = {trace.name for _, traces in chart.panels for trace in traces if not trace.quiet}
    if names:
        figure.legend(loc="outside lower center", ncols=min(5, len(names)), fontsize=8)
    return figure


def _trace(axes: Axes, trace: Trace) -> None:
    options: dict[str, Any] = {
        "color": COLOURS[trace.colour % len(COLOURS)],
        "label": None if trace.quiet else trace.name,
        "alpha": 0.8,
    }
    if trace.kind == "points":
        axes.plot(trace.x, trace.y, "o", ms=5, **options)
    else:
        axes.plot(
            trace.x, trace.y, lw=1.4, drawstyle="steps-post" if trace.kind == "steps" else None, **options
        )


def _label(axes: Axes, side: str, axis: Axis) -> None:
    part = axes.xaxis if side == "x" else axes.yaxis
    part.set_label_text(axis.label)
    if axis.log:
        axes.set_xscale("log") if side == "x" else axes.set_yscale("log")
    if axis.ticks:
        part.set_ticks(range(len(axis.ticks)), list(axis.ticks))
    if axis.label in ("trial", "epoch"):
        part.set_major_locator(MaxNLocator(integer=True))


def _matrix(chart: MatrixChart) -> Figure:
    side = 2.4 + 0.62 * len(chart.names)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(chart.values, vmin=-1, vmax=1, cmap="RdBu")
    places = range(len(chart.names))
    axes.set_xticks(places, chart.names, rotation=40, ha="right")
    axes.set_yticks(places, chart.names)
    for (row, column), value in np.ndenumerate(chart.values):
        if np.isfinite(value):
            colour = "white" if abs(value) > 0.6 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=9, color=colour)
    figure.colorbar(image, shrink=0.8)
    figure.suptitle(chart.title, fontsize=9)
    return figure


def _contour(chart: ContourChart) -> Figure:
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.use_sticky_edges = False  # the outermost trials lie on the border of the surface
    if chart.surface is not None:
        filled = axes.contourf(chart.grid_x, chart.grid_y, chart.surface, levels=12, cmap="Blues")
        figure.colorbar(filled, label=chart.level)
    axes.plot(chart.points[:, 0], chart.points[:, 1], "o", color="#1d2733", ms=5, mec="white", mew=0.8)
    _label(axes, "x", chart.x)
    _label(axes, "y", chart.y)
    axes.set_title(chart.title, fontsize=11)
    return figure
