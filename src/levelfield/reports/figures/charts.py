"""Charts as plain data, apart from what draws them: plotly for pages, matplotlib for PNG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COLOURS = (
    *("#2a6fbb", "#d1495b", "#3a9679", "#e0a030", "#7a5ea8", "#5b6770", "#c06c9a", "#7f8c2f"),
    *("#00a3c4", "#8c5a2b", "#a3c1e0", "#e59aa4", "#93cbb6", "#c9b3e0", "#f4743b"),
)
NAMED_COLOURS = {"papers": "#7f7f7f", "separated": "#9dc3e6", "concatenated": "#2a6fbb"}


@dataclass(frozen=True)
class Trace:
    """Points or a line; those of one ``name`` share one entry of the legend.

    Attributes:
        name: What the legend says.
        x: From left to right (n).
        y: From bottom to top (n).
        kind: "points", "line", "joined" for points on a line, "dotted" for a dotted line, or "steps" for a
            line that holds its value until the next point.
        colour: Number of the colour; beyond the last one they come again, as rings and dashed lines.
        remarks: Shown on hover, one per point, of one or more lines; or none.
        quiet: Not in the legend.
        marker: What a point looks like: "dot", "ring" or "cross".
        faint: One of very many: almost transparent.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: Literal["points", "line", "joined", "dotted", "steps"] = "points"
    colour: int = 0
    remarks: tuple[str, ...] = ()
    quiet: bool = False
    marker: Literal["dot", "ring", "cross"] = "dot"
    faint: bool = False

    @property
    def again(self) -> bool:
        """Whether another trace has had this colour: it must look different by something else."""
        return self.colour >= len(COLOURS)


@dataclass(frozen=True)
class Axis:
    """How one direction is drawn.

    Attributes:
        label: What stands beside it.
        log: Whether it is logarithmic.
        ticks: Names of the positions 0, 1, 2, ... of a choice.
        whole: Whether only whole numbers make sense.
    """

    label: str
    log: bool = False
    ticks: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Panel:
    """One field of a chart.

    Attributes:
        x: The horizontal axis.
        traces: What is drawn, later ones on top.
        title: Above it.
        y: A vertical axis of its own; None shares the chart's.
        square: Whether a step to the right is as long as a step upwards, as on a map.
    """

    x: Axis
    traces: tuple[Trace, ...]
    title: str = ""
    y: Axis | None = None
    square: bool = False


@dataclass(frozen=True)
class PanelChart:
    """Panels side by side; those without a vertical axis of their own share ``y``."""

    title: str
    y: Axis
    panels: tuple[Panel, ...]

    def legend(self) -> list[tuple[Panel, list[tuple[Trace, bool]]]]:
        """The panels with their traces, and whether a trace enters the legend: each name once."""
        seen: set[str] = set()
        found = []
        for panel in self.panels:
            marked = []
            for trace in panel.traces:
                marked.append((trace, not trace.quiet and trace.name not in seen))
                seen |= set() if trace.quiet else {trace.name}
            found.append((panel, marked))
        return found


@dataclass(frozen=True)
class Bar:
    """The height of a bar, the half-width of its interval, a word to stand above it, a remark on hover."""

    value: float
    error: float | None = None
    label: str = ""
    remark: str = ""


@dataclass(frozen=True)
class BarChart:
    """Groups of bars: ``series[name][group]``; a bar that is missing leaves a gap."""

    title: str
    y_label: str
    groups: tuple[str, ...]
    series: Mapping[str, Mapping[str, Bar]]


@dataclass(frozen=True)
class MatrixChart:
    """A square table of numbers from -1 to 1; NaN is left blank."""

    title: str
    names: tuple[str, ...]
    values: Array


@dataclass(frozen=True)
class ContourChart:
    """Scores over two hyperparameters: the points tried, and the surface between them.

    Attributes:
        title: What stands above.
        x: The horizontal axis.
        y: The vertical axis.
        points: x, y and score of each trial (n x 3).
        grid_x: Where the surface is given (g).
        grid_y: Where the surface is given (g).
        surface: Scores (g x g), row by row of ``grid_y``; NaN outside the points; None where the points do
            not span a surface.
        level: What the colours mean.
    """

    title: str
    x: Axis
    y: Axis
    points: Array
    grid_x: Array
    grid_y: Array
    surface: Array | None
    level: str


Chart = PanelChart | BarChart | MatrixChart | ContourChart


def colour(number: int, name: str = "") -> str:
    """The colour of a number; some names always have the same."""
    return NAMED_COLOURS.get(name, COLOURS[number % len(COLOURS)])
