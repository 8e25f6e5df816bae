"""A search in pictures: history, slices, contour and importance, from the recorded trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from levelfield.protocol import importance
from levelfield.reports.figures.charts import Array, Axis, ContourChart, PanelChart, Trace
from levelfield.reports.figures.published import Bar, BarChart
from levelfield.space import Choice, Dimension, Space

GRID = 100
Trial = Mapping[str, Any]


def history(searches: Mapping[str, Sequence[Trial]], *, metric: str) -> PanelChart:
    """The score of each trial and the best so far, of one or several methods.

    Example:
        >>> chart = history({"triplet": [{"number": 0, "score": 0.5, "hyperparameters": {}}]}, metric="MAP@R")
        >>> chart.panels[0][1][0].y
        (50.0,)
    """
    traces = []
    for colour, (method, trials) in enumerate(searches.items()):
        done = complete(trials)
        x = tuple(float(trial["number"] + 1) for trial in done)
        y = tuple(100 * trial["score"] for trial in done)
        best = tuple(np.maximum.accumulate(y).tolist()) if y else ()
        remarks = tuple(described(trial["hyperparameters"]) for trial in done)
        traces.append(Trace(method, x, y, colour=colour, remarks=remarks))
        traces.append(Trace(method, x, best, "steps", colour, quiet=True))
    who = "Search" if len(searches) != 1 else next(iter(searches))
    title = f"{who}: mean validation {metric} of each trial; line: best so far"
    return PanelChart(title, Axis(f"{metric} (%)"), ((Axis("trial"), tuple(traces)),))


def slices(method: str, trials: Sequence[Trial], space: Space, *, metric: str) -> PanelChart:
    """Scores against each hyperparameter by itself, a panel each."""
    done = complete(trials)
    y = tuple(100 * trial["score"] for trial in done)
    remarks = tuple(f"trial {trial['number'] + 1}<br>{described(trial['hyperparameters'])}" for trial in done)
    panels = []
    for name, dimension in space.items():
        x = tuple(place(dimension, trial["hyperparameters"][name]) for trial in done)
        panels.append((axis(name, dimension), (Trace(method, x, y, remarks=remarks, quiet=True),)))
    return PanelChart(
        f"{method}: validation {metric} against each hyperparameter", Axis(f"{metric} (%)"), tuple(panels)
    )


def importances(method: str, trials: Sequence[Trial], space: Space) -> BarChart | None:
    """The share of each hyperparameter in reaching the best tenth; None with too few trials."""
    found = importance(space, trials)
    if not found:
        return None
    bars = {name: Bar(100 * share) for name, share in found.items()}
    count = len(complete(trials))
    title = f"{method}: which hyperparameters mattered (PED-ANOVA, {count} trials)"
    return BarChart(title, "importance (%)", tuple(bars), {"importance": bars})


def contour(method: str, trials: Sequence[Trial], space: Space, *, metric: str) -> ContourChart | None:
    """Scores over the two most important hyperparameters; None where fewer than two varied."""
    chosen = list(importance(space, trials))[:2]
    if len(chosen) < 2:
        return None
    first, second = chosen
    done = complete(trials)
    points = np.array(
        [
            [
                place(space[first], trial["hyperparameters"][first]),
                place(space[second], trial["hyperparameters"][second]),
                100 * trial["score"],
            ]
            for trial in done
        ]
    )
    horizontal, vertical = axis(first, space[first]), axis(second, space[second])
    grid_x, grid_y = _grid(points[:, 0], log=horizontal.log), _grid(points[:, 1], log=vertical.log)
    return ContourChart(
        title=f"{method}: validation {metric} over the two that mattered most",
        x=horizontal,
        y=vertical,
        points=points,
        grid_x=grid_x,
        grid_y=grid_y,
        surface=_surface(points, grid_x, grid_y, log=(horizontal.log, vertical.log)),
        level=f"{metric} (%)",
    )


def complete(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that have a score."""
    return [trial for trial in trials if trial["score"] is not None]


def axis(name: str, dimension: Dimension) -> Axis:
    """How a hyperparameter is drawn."""
    if isinstance(dimension, Choice):
        return Axis(name, ticks=tuple(str(option) for option in dimension.options))
    return Axis(name, log=dimension.log)


def place(dimension: Dimension, value: Any) -> float:
    """Where a value lies on its axis: a choice at the number of its option."""
    return float(dimension.options.index(value) if isinstance(dimension, Choice) else value)


def described(hyperparameters: Mapping[str, Any]) -> str:
    """Hyperparameters line by line, for hovering."""
    return "<br>".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in hyperparameters.items()
    )


def _grid(values: Array, *, log: bool) -> Array:
    low, high = float(values.min()), float(values.max())
    return np.geomspace(low, high, GRID) if log else np.linspace(low, high, GRID)


def _surface(points: Array, grid_x: Array, grid_y: Array, *, log: tuple[bool, bool]) -> Array | None:
    """Linear between the points, each axis as wide as the other; None if they lie on a line."""
    from scipy.interpolate import griddata
    from scipy.spatial import QhullError

    def scaled(values: Array, reference: Array, in_log: bool) -> Array:
        values, reference = (np.log(values), np.log(reference)) if in_log else (values, reference)
        inside: Array = (values - reference.min()) / (reference.max() - reference.min())
        return inside

    x = scaled(points[:, 0], points[:, 0], log[0])
    y = scaled(points[:, 1], points[:, 1], log[1])
    mesh = np.meshgrid(scaled(grid_x, points[:, 0], log[0]), scaled(grid_y, points[:, 1], log[1]))
    try:
        surface: Array = griddata((x, y), points[:, 2], (mesh[0], mesh[1]), method="linear")
    except QhullError:
        return None
    return surface
