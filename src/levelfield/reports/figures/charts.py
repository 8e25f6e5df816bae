"""Charts as plain data; plotly draws them for pages, matplotlib for PNG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COLORS = (
    *("#2a6fbb", "#d1495b", "#3a9679", "#e0a030", "#7a5ea8", "#00a3c4", "#c06c9a", "#7f8c2f"),
    *("#5b6770", "#8c5a2b", "#a3c1e0", "#e59aa4", "#93cbb6", "#c9b3e0", "#f4743b"),
)
GRAY = -1
NAMED_COLORS = {"papers": "#7f7f7f", "separated": "#9dc3e6", "concatenated": "#2a6fbb"}


@dataclass(frozen=True)
class Trace:
    """Points or a line. Traces of one ``name`` share a legend entry.

    Attributes:
        name: Name in the legend.
        x: Horizontal positions (n).
        y: Vertical positions (n).
        kind: "points", "line", "joined" for points on a line, "dotted" for a dotted line, or "steps" for a
            line that holds its value until the next point.
        color: Index of the color, or GRAY. Beyond the last color they repeat, with rings and dashed lines.
        hover_texts: Text on hover for each point, or empty.
        hide_legend: True leaves the trace out of the legend.
        marker: Shape of points: "dot", "ring" or "cross".
        faint: True draws the trace almost transparent.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Literal["points", "line", "joined", "dotted", "steps"] = "points"
    color: int = 0
    hover_texts: tuple[str, ...] = ()
    hide_legend: bool = False
    marker: Literal["dot", "ring", "cross"] = "dot"
    faint: bool = False

    @property
    def color_repeats(self) -> bool:
        """True if ``color`` is beyond the last color, so that another trace has the same color."""
        return self.color >= len(COLORS)


@dataclass(frozen=True)
class Axis:
    """Axis of a chart.

    Attributes:
        label: Label of the axis.
        log: True for a logarithmic axis.
        ticks: Names of the positions 0, 1, 2, ... of a categorical axis.
        integer_ticks: True puts ticks at integers only.
    """

    label: str
    log: bool = False
    ticks: tuple[str, ...] = ()
    integer_ticks: bool = False


@dataclass(frozen=True)
class Panel:
    """Panel of a chart.

    Attributes:
        x: Horizontal axis.
        traces: Traces; later ones are on top.
        title: Title of the panel.
        y: Vertical axis; None shares that of the chart.
        square: True gives both axes the same scale.
    """

    x: Axis
    traces: tuple[Trace, ...]
    title: str = ""
    y: Axis | None = None
    square: bool = False


@dataclass(frozen=True)
class PanelChart:
    """Panels side by side; panels without their own vertical axis share ``y``."""

    title: str
    y: Axis
    panels: tuple[Panel, ...]

    def legend(self) -> list[tuple[Panel, list[tuple[Trace, bool]]]]:
        """Return the panels with (trace, in legend) pairs; each name is in the legend once."""
        seen: set[str] = set()
        found = []
        for panel in self.panels:
            marked = []
            for trace in panel.traces:
                marked.append((trace, not trace.hide_legend and trace.name not in seen))
                seen |= set() if trace.hide_legend else {trace.name}
            found.append((panel, marked))
        return found


@dataclass(frozen=True)
class Bar:
    """Bar: its height, the half width of its interval, a label above it, and a text on hover."""

    value: float
    error: float | None = None
    label: str = ""
    hover_text: str = ""


@dataclass(frozen=True)
class BarChart:
    """Groups of bars: ``series[name][group]``; a missing bar leaves a gap."""

    title: str
    y_label: str
    groups: tuple[str, ...]
    series: Mapping[str, Mapping[str, Bar]]


@dataclass(frozen=True)
class MatrixChart:
    """Square matrix of numbers from -1 to 1; NaN is blank."""

    title: str
    names: tuple[str, ...]
    values: Array


@dataclass(frozen=True)
class ContourChart:
    """Scores over two hyperparameters: the trials, and the surface between them.

    Attributes:
        title: Title of the chart.
        x: Horizontal axis.
        y: Vertical axis.
        points: x, y and score of each trial (n x 3).
        grid_x: Horizontal positions of the surface (g).
        grid_y: Vertical positions of the surface (g).
        surface: Scores (g x g), a row per value of ``grid_y``, NaN outside the points; None if the points do
            not span a surface.
        level: Label of the color scale.
    """

    title: str
    x: Axis
    y: Axis
    points: Array
    grid_x: Array
    grid_y: Array
    surface: Array | None
    level: str


@dataclass(frozen=True)
class IntervalRow:
    """Row of an interval chart.

    Attributes:
        name: Name of the row.
        value: Position of the dot.
        half_width: Half width of the interval; None without one.
        text: Value as text.
        color: Index of the color; GRAY for a row without a color of its own.
        note: Text after the value, such as "baseline".
    """

    name: str
    value: float
    half_width: float | None
    text: str
    color: int
    note: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        """Lower and upper end of the interval."""
        half = self.half_width or 0.0
        return self.value - half, self.value + half


@dataclass(frozen=True)
class IntervalChart:
    """Dots with intervals, a row per method, the first row on top."""

    title: str
    x_label: str
    rows: tuple[IntervalRow, ...]


Chart = PanelChart | BarChart | MatrixChart | ContourChart | IntervalChart


def color(number: int, name: str = "") -> str:
    """Return the color of an index; some names have fixed colors, and GRAY is gray."""
    return NAMED_COLORS.get(name, "#98a2ad" if number == GRAY else COLORS[number % len(COLORS)])
