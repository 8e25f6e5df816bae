"""Charts as plain data, apart from what draws them; :mod:`._still` and :mod:`._interactive` do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """Points or a line; those of one ``name`` share a colour and one entry of the legend.

    Attributes:
        name: What the legend says.
        x: Where (n).
        y: How high (n).
        kind: "points", "line", or "steps" for a line that holds its value until the next point.
        colour: Number of the colour.
        remarks: Shown on hover, one per point; or none.
        quiet: Not in the legend.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    kind: str = "points"
    colour: int = 0
    remarks: tuple[str, ...] = ()
    quiet: bool = False


@dataclass(frozen=True)
class Axis:
    """A label; ``log`` for a logarithmic axis; ``ticks`` name the places 0, 1, 2, ... of a choice."""

    label: str
    log: bool = False
    ticks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PanelChart:
    """Panels side by side that share the vertical axis, each with its own horizontal one."""

    title: str
    y: Axis
    panels: tuple[tuple[Axis, tuple[Trace, ...]], ...]


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
