"""A search in pictures: history, slices, contour and importance, from the recorded trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from levelfield.compare import Comparison, Evidence, Measure, Result, Trial
from levelfield.protocol import importance, searched_space
from levelfield.reports._results_table import shown_hyperparameters
from levelfield.reports.figures._registry import register
from levelfield.reports.figures.charts import (
    Array,
    Axis,
    Bar,
    BarChart,
    ContourChart,
    Panel,
    PanelChart,
    Trace,
)
from levelfield.space import Choice, Dimension, Space, Value

GRID = 100


@register("search-history")
def search_history(evidence: Evidence) -> PanelChart:
    """The trials of every method's first search, and the best so far."""
    comparison = evidence.comparison
    return history(
        {r.method: r.trials for r in comparison.trained},
        measure=_measure(comparison),
        searches=comparison.experiment.search.repeats,
    )


@register("history", each_method=True)
def method_history(evidence: Evidence, result: Result) -> PanelChart | None:
    """The trials of one method's first search, and the best so far; None if nothing was searched."""
    if not _space(result):
        return None
    measure = _measure(evidence.comparison)
    return history({result.method: result.trials}, measure=measure, searches=len(result.repeats))


@register("slice", each_method=True)
def method_slices(evidence: Evidence, result: Result) -> PanelChart | None:
    """One method's scores against each hyperparameter by itself; None if nothing was searched."""
    space, measure = _space(result), _measure(evidence.comparison)
    return slices(result.method, _all_trials(result), space, measure=measure) if space else None


@register("contour", each_method=True)
def method_contour(evidence: Evidence, result: Result) -> ContourChart | None:
    """One method's scores over its two most important hyperparameters."""
    space, measure = _space(result), _measure(evidence.comparison)
    return contour(result.method, _all_trials(result), space, measure=measure) if space else None


@register("importance", each_method=True)
def method_importance(evidence: Evidence, result: Result) -> BarChart | None:
    """Which of one method's hyperparameters mattered."""
    measure = _measure(evidence.comparison)
    return importances(result.method, _all_trials(result), _space(result), measure=measure)


def _measure(comparison: Comparison) -> Measure:
    return comparison.measures[comparison.experiment.training.metric]


def _all_trials(result: Result) -> list[Trial]:
    """Those of all searches: they range over the same space."""
    return [trial for repeat in result.repeats for trial in repeat.trials]


def _space(result: Result) -> Space:
    """What was searched; empty without a trial that has a score."""
    trials = _all_trials(result)
    return searched_space(result.search, trials) if complete(trials) else {}


def history(methods: Mapping[str, Sequence[Trial]], *, measure: Measure, searches: int = 1) -> PanelChart:
    """The score of each trial and the best so far, of one or several methods.

    Args:
        methods: The trials of one search of each.
        measure: What is validated.
        searches: Of how many searches these are the first.

    Example:
        >>> measure = Measure(name="map_at_r", label="MAP@R", unit="percent", higher_is_better=True)
        >>> chart = history({"triplet": [Trial(number=0, score=0.5, hyperparameters={})]}, measure=measure)
        >>> chart.panels[0].traces[0].y
        (50.0,)
    """
    best_of = np.minimum if measure.higher_is_better is False else np.maximum
    traces = []
    for colour, (method, trials) in enumerate(methods.items()):
        done = complete(trials)
        x = tuple(float(trial.number + 1) for trial, _ in done)
        y = tuple(measure.scale * score for _, score in done)
        best = tuple(best_of.accumulate(y).tolist()) if y else ()
        remarks = tuple(shown_hyperparameters(trial.hyperparameters, "\n") for trial, _ in done)
        traces.append(Trace(method, x, y, colour=colour, remarks=remarks))
        traces.append(Trace(method, x, best, "steps", colour, quiet=True))
    who = "Search" if len(methods) != 1 else next(iter(methods))
    which = "" if searches == 1 else f" (the first of {searches} searches)"
    title = f"{who}{which}: mean validation {measure.label} of each trial; line: best so far"
    return PanelChart(title, Axis(measure.axis), (Panel(Axis("trial", whole=True), tuple(traces)),))


def slices(method: str, trials: Sequence[Trial], space: Space, *, measure: Measure) -> PanelChart:
    """Scores against each hyperparameter by itself, a panel each."""
    done = complete(trials)
    y = tuple(measure.scale * score for _, score in done)
    remarks = tuple(
        f"trial {trial.number + 1}\n" + shown_hyperparameters(trial.hyperparameters, "\n")
        for trial, _ in done
    )
    panels = []
    for name, dimension in space.items():
        x = tuple(position(dimension, trial.hyperparameters[name]) for trial, _ in done)
        trace = Trace(method, x, y, remarks=remarks, quiet=True)
        panels.append(Panel(axis_of(name, dimension), (trace,)))
    title = f"{method}: validation {measure.label} against each hyperparameter"
    return PanelChart(title, Axis(measure.axis), tuple(panels))


def importances(method: str, trials: Sequence[Trial], space: Space, *, measure: Measure) -> BarChart | None:
    """The share of each hyperparameter in reaching the best tenth; None with too few trials."""
    found = _importance(space, trials, measure)
    if not found:
        return None
    bars = {name: Bar(100 * share) for name, share in found.items()}
    title = f"{method}: which hyperparameters mattered (PED-ANOVA, {len(complete(trials))} trials)"
    return BarChart(title, "importance (%)", tuple(bars), {"importance": bars})


def contour(method: str, trials: Sequence[Trial], space: Space, *, measure: Measure) -> ContourChart | None:
    """Scores over the two most important hyperparameters; None where fewer than two varied."""
    chosen = list(_importance(space, trials, measure))[:2]
    if len(chosen) < 2:
        return None
    first, second = chosen
    points = np.array(
        [
            [
                position(space[first], trial.hyperparameters[first]),
                position(space[second], trial.hyperparameters[second]),
                measure.scale * score,
            ]
            for trial, score in complete(trials)
        ]
    )
    horizontal, vertical = axis_of(first, space[first]), axis_of(second, space[second])
    grid_x, grid_y = _grid(points[:, 0], log=horizontal.log), _grid(points[:, 1], log=vertical.log)
    return ContourChart(
        title=f"{method}: validation {measure.label} over the two that mattered most",
        x=horizontal,
        y=vertical,
        points=points,
        grid_x=grid_x,
        grid_y=grid_y,
        surface=_surface(points, grid_x, grid_y, log=(horizontal.log, vertical.log)),
        level=measure.axis,
    )


def _importance(space: Space, trials: Sequence[Trial], measure: Measure) -> dict[str, float]:
    return importance(space, trials, higher_is_better=measure.higher_is_better is not False)


def complete(trials: Sequence[Trial]) -> list[tuple[Trial, float]]:
    """The trials that have a score, with it."""
    return [(trial, trial.score) for trial in trials if trial.score is not None]


def axis_of(name: str, dimension: Dimension) -> Axis:
    """How a hyperparameter is drawn."""
    if isinstance(dimension, Choice):
        return Axis(name, ticks=tuple(str(option) for option in dimension.options))
    return Axis(name, log=dimension.log)


def position(dimension: Dimension, value: Value) -> float:
    """Where a value lies on its axis: a choice at the number of its option."""
    return float(dimension.options.index(value) if isinstance(dimension, Choice) else value)


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
