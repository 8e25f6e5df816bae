"""Figures of a search: history, slices, contour and importance, from the recorded trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from levelfield.analysis import Analysis, Comparison, MethodResult, MetricInfo, Trial
from levelfield.analysis.importance import compute_importance, infer_search_space
from levelfield.core.errors import RunError
from levelfield.core.space import Choice, Dimension, Space, Value
from levelfield.reports._record_tables import format_hyperparameters
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
from levelfield.reports.figures.experiment import method_colors

GRID = 100


@register("search-history")
def search_history(analysis: Analysis) -> PanelChart:
    """Return the trials of every method's first search, and the best so far."""
    comparison = analysis.comparison
    return history(
        {r.method: r.trials for r in comparison.trained},
        metric_info=_measure(comparison),
        searches=comparison.experiment.search.repeats,
        colors=method_colors(analysis),
    )


@register("history", each_method=True)
def method_history(analysis: Analysis, result: MethodResult) -> PanelChart | None:
    """Return the trials of one method's first search, and the best so far; None if nothing was searched."""
    if not _space(result):
        return None
    metric_info = _measure(analysis.comparison)
    return history({result.method: result.trials}, metric_info=metric_info, searches=len(result.repeats))


@register("slice", each_method=True)
def method_slices(analysis: Analysis, result: MethodResult) -> PanelChart | None:
    """Return the scores of one method against each hyperparameter; None if nothing was searched."""
    space, metric_info = _space(result), _measure(analysis.comparison)
    return slices(result.method, _all_trials(result), space, metric_info=metric_info) if space else None


@register("contour", each_method=True)
def method_contour(analysis: Analysis, result: MethodResult) -> ContourChart | None:
    """Return the scores of one method over its two most important hyperparameters; None with fewer."""
    space, metric_info = _space(result), _measure(analysis.comparison)
    return contour(result.method, _all_trials(result), space, metric_info=metric_info) if space else None


@register("importance", each_method=True)
def method_importance(analysis: Analysis, result: MethodResult) -> BarChart | None:
    """Return the importance of the hyperparameters of one method; None with too few trials."""
    metric_info = _measure(analysis.comparison)
    return importances(result.method, _all_trials(result), _space(result), metric_info=metric_info)


def _measure(comparison: Comparison) -> MetricInfo:
    return comparison.metric_infos[comparison.experiment.training.metric]


def _all_trials(result: MethodResult) -> list[Trial]:
    """Return the trials of all searches; they share one search space."""
    return [trial for repeat in result.repeats for trial in repeat.trials]


def _space(result: MethodResult) -> Space:
    """Return the search space; empty if no trial has a score."""
    trials = _all_trials(result)
    return infer_search_space(result.search, trials) if scored_trials(trials) else {}


def history(
    methods: Mapping[str, Sequence[Trial]],
    *,
    metric_info: MetricInfo,
    searches: int = 1,
    colors: Mapping[str, int] | None = None,
) -> PanelChart:
    """Return the score of each trial and the best so far, for one or several methods.

    Args:
        methods: Trials of the first search, by method.
        metric_info: Selection metric.
        searches: Number of searches per method.
        colors: Color of each method. Defaults to their order.

    Example:
        >>> metric_info = MetricInfo(name="map_at_r", label="MAP@R", unit="percent", higher_is_better=True)
        >>> trials = [Trial(number=0, score=0.5, hyperparameters={})]
        >>> chart = history({"triplet": trials}, metric_info=metric_info)
        >>> chart.panels[0].traces[0].y
        (50.0,)
    """
    best_of = np.minimum if metric_info.higher_is_better is False else np.maximum
    traces = []
    for number, (method, trials) in enumerate(methods.items()):
        color = (colors or {}).get(method, number)
        done = scored_trials(trials)
        x = tuple(float(trial.number + 1) for trial, _ in done)
        y = tuple(metric_info.scale * score for _, score in done)
        best = tuple(best_of.accumulate(y).tolist()) if y else ()
        hover_texts = tuple(format_hyperparameters(trial.hyperparameters, "\n") for trial, _ in done)
        traces.append(Trace(method, x, y, color=color, hover_texts=hover_texts))
        traces.append(Trace(method, x, best, "steps", color, hide_legend=True))
    subject = "Search" if len(methods) != 1 else next(iter(methods))
    which = "" if searches == 1 else f" (the first of {searches} searches)"
    title = f"{subject}{which}: mean validation {metric_info.label} of each trial; line: best so far"
    return PanelChart(
        title, Axis(metric_info.axis), (Panel(Axis("trial", integer_ticks=True), tuple(traces)),)
    )


def slices(method: str, trials: Sequence[Trial], space: Space, *, metric_info: MetricInfo) -> PanelChart:
    """Return the scores against each hyperparameter, one panel each."""
    done = scored_trials(trials)
    y = tuple(metric_info.scale * score for _, score in done)
    hover_texts = tuple(
        f"trial {trial.number + 1}\n" + format_hyperparameters(trial.hyperparameters, "\n")
        for trial, _ in done
    )
    panels = []
    for name, dimension in space.items():
        x = tuple(position(dimension, trial.hyperparameters[name]) for trial, _ in done)
        trace = Trace(method, x, y, hover_texts=hover_texts, hide_legend=True)
        panels.append(Panel(hyperparameter_axis(name, dimension), (trace,)))
    title = f"{method}: validation {metric_info.label} against each hyperparameter"
    return PanelChart(title, Axis(metric_info.axis), tuple(panels))


def importances(
    method: str, trials: Sequence[Trial], space: Space, *, metric_info: MetricInfo
) -> BarChart | None:
    """Return the importance of each hyperparameter in percent; None with too few trials."""
    found = _importance(space, trials, metric_info)
    if not found:
        return None
    bars = {name: Bar(100 * share) for name, share in found.items()}
    title = f"{method}: importance of hyperparameters (PED-ANOVA, {len(scored_trials(trials))} trials)"
    return BarChart(title, "importance (%)", tuple(bars), {"importance": bars})


def contour(
    method: str, trials: Sequence[Trial], space: Space, *, metric_info: MetricInfo
) -> ContourChart | None:
    """Return the scores over the two most important hyperparameters; None if fewer than two varied."""
    chosen = list(_importance(space, trials, metric_info))[:2]
    if len(chosen) < 2:
        return None
    first, second = chosen
    points = np.array(
        [
            [
                position(space[first], trial.hyperparameters[first]),
                position(space[second], trial.hyperparameters[second]),
                metric_info.scale * score,
            ]
            for trial, score in scored_trials(trials)
        ]
    )
    horizontal, vertical = (
        hyperparameter_axis(first, space[first]),
        hyperparameter_axis(second, space[second]),
    )
    grid_x, grid_y = _grid(points[:, 0], log=horizontal.log), _grid(points[:, 1], log=vertical.log)
    return ContourChart(
        title=f"{method}: validation {metric_info.label} over the two most important hyperparameters",
        x=horizontal,
        y=vertical,
        points=points,
        grid_x=grid_x,
        grid_y=grid_y,
        surface=_surface(points, grid_x, grid_y, log=(horizontal.log, vertical.log)),
        level=metric_info.axis,
    )


def _importance(space: Space, trials: Sequence[Trial], metric_info: MetricInfo) -> dict[str, float]:
    return compute_importance(space, trials, higher_is_better=metric_info.higher_is_better is not False)


def scored_trials(trials: Sequence[Trial]) -> list[tuple[Trial, float]]:
    """Return the trials that have a score, with their score."""
    return [(trial, trial.score) for trial in trials if trial.score is not None]


def hyperparameter_axis(name: str, dimension: Dimension) -> Axis:
    """Return the axis of a hyperparameter."""
    if isinstance(dimension, Choice):
        return Axis(name, ticks=tuple(str(option) for option in dimension.options))
    return Axis(name, log=dimension.log)


def position(dimension: Dimension, value: Value) -> float:
    """Return the position of a value on its axis; for a choice the index of the option."""
    try:
        return float(dimension.options.index(value) if isinstance(dimension, Choice) else value)
    except (ValueError, TypeError, OverflowError) as error:
        raise RunError(
            f"a trial has the hyperparameter value {str(value)[:100]!r}, which is not in its search space; "
            "restore the records from a copy"
        ) from error


def _grid(values: Array, *, log: bool) -> Array:
    low, high = float(values.min()), float(values.max())
    return np.geomspace(low, high, GRID) if log else np.linspace(low, high, GRID)


def _surface(points: Array, grid_x: Array, grid_y: Array, *, log: tuple[bool, bool]) -> Array | None:
    """Interpolate linearly between the points, with both axes scaled to 0..1; None if they lie on a line."""
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
