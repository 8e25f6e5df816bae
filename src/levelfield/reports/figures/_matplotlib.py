"""Drawing of charts with matplotlib, for PNG."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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

LINES = {"points": "none", "dotted": ":"}
MARKERS = {"dot": "o", "ring": "o", "cross": "x"}


def draw_matplotlib(chart: Chart) -> Figure:
    """Draw a chart as a matplotlib figure."""
    match chart:
        case PanelChart():
            return _panels(chart)
        case BarChart():
            return _bars(chart)
        case MatrixChart():
            return _matrix(chart)
        case ContourChart():
            return _contour(chart)
        case IntervalChart():
            return _intervals(chart)


def _panels(chart: PanelChart) -> Figure:
    count = len(chart.panels)
    shared = all(panel.y is None and not panel.square for panel in chart.panels)
    figure = Figure(figsize=(8 if count == 1 else max(12, 1.5 + 3 * count), 4.6), layout="constrained")
    row = figure.subplots(1, count, sharey=shared, squeeze=False)[0]
    for number, (axes, (panel, traces)) in enumerate(zip(row, chart.legend(), strict=True)):
        for trace, in_legend in traces:
            _trace(axes, trace, in_legend=in_legend)
        _label(axes, "x", panel.x)
        if panel.y is not None or number == 0 or not shared:
            _label(axes, "y", panel.y or chart.y)
        if panel.square:
            axes.set_aspect("equal")
        axes.set_title(panel.title, fontsize=10)
        axes.grid(alpha=0.3)
    figure.suptitle(chart.title, fontsize=11)
    names = {trace.name for panel in chart.panels for trace in panel.traces if not trace.hide_legend}
    if names:
        figure.legend(loc="outside lower center", ncols=min(5, len(names)), fontsize=8)
    return figure


def _trace(axes: Axes, trace: Trace, *, in_legend: bool) -> None:
    paint = color(trace.color)
    options: dict[str, Any] = {"drawstyle": "steps-post"} if trace.kind == "steps" else {}
    if trace.kind in ("points", "joined"):
        inside = "none" if trace.color_repeats or trace.marker == "ring" else paint
        options |= {"marker": MARKERS[trace.marker], "ms": 5, "mfc": inside}
    axes.plot(
        trace.x,
        trace.y,
        ls=LINES.get(trace.kind, "--" if trace.color_repeats else "-"),
        lw=1.4,
        color=paint,
        label=trace.name if in_legend else None,
        alpha=0.15 if trace.faint else 0.8,
        **options,
    )


def _label(axes: Axes, side: str, axis: Axis) -> None:
    part = axes.xaxis if side == "x" else axes.yaxis
    part.set_label_text(axis.label)
    if axis.log:
        axes.set_xscale("log") if side == "x" else axes.set_yscale("log")
    if axis.ticks:
        part.set_ticks(range(len(axis.ticks)), list(axis.ticks))
    if axis.integer_ticks:
        part.set_major_locator(MaxNLocator(integer=True))


def _bars(chart: BarChart) -> Figure:
    figure = Figure(figsize=(max(7.5, 0.75 * len(chart.groups)), 4.4), layout="constrained")
    axes = figure.add_subplot()
    width = 0.8 / len(chart.series)
    for number, (name, bars) in enumerate(chart.series.items()):
        positions = [i for i, group in enumerate(chart.groups) if group in bars]
        shown = [bars[chart.groups[i]] for i in positions]
        drawn = axes.bar(
            [i + (number - (len(chart.series) - 1) / 2) * width for i in positions],
            [bar.value for bar in shown],
            width,
            yerr=[bar.error or 0.0 for bar in shown] if any(bar.error for bar in shown) else None,
            capsize=2,
            color=color(number, name),
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
    if len(chart.series) > 1:
        figure.legend(loc="outside lower center", ncols=len(chart.series), fontsize=8)
    return figure


def _matrix(chart: MatrixChart) -> Figure:
    side = 2.4 + 0.62 * len(chart.names)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(chart.values, vmin=-1, vmax=1, cmap="RdBu")
    positions = range(len(chart.names))
    axes.set_xticks(positions, chart.names, rotation=40, ha="right")
    axes.set_yticks(positions, chart.names)
    for (row, column), value in np.ndenumerate(chart.values):
        if np.isfinite(value):
            ink = "white" if abs(value) > 0.6 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=9, color=ink)
    figure.colorbar(image, shrink=0.8)
    figure.suptitle(chart.title, fontsize=9)
    return figure


def _intervals(chart: IntervalChart) -> Figure:
    figure = Figure(figsize=(7.5, 1.2 + 0.28 * len(chart.rows)), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(chart.rows):
        axes.errorbar(
            row.value, place, xerr=row.half_width or 0.0, fmt="o", color=color(row.color), ms=5, capsize=2
        )
    names = [f"{row.name} ({row.note})" if row.note else row.name for row in chart.rows]
    axes.set_yticks(range(len(chart.rows)), names)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(chart.x_label)
    axes.set_title(chart.title, fontsize=11)
    return figure


def _contour(chart: ContourChart) -> Figure:
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.use_sticky_edges = False  # leave a margin around trials at the border of the surface
    if chart.surface is not None:
        filled = axes.contourf(chart.grid_x, chart.grid_y, chart.surface, levels=12, cmap="Blues")
        figure.colorbar(filled, label=chart.level)
    axes.plot(chart.points[:, 0], chart.points[:, 1], "o", color="#1d2733", ms=5, mec="white", mew=0.8)
    _label(axes, "x", chart.x)
    _label(axes, "y", chart.y)
    axes.set_title(chart.title, fontsize=11)
    return figure
