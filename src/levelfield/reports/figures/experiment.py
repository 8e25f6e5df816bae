"""Figures of an experiment: scores, learning curves, correlation of metrics, spectra."""

from __future__ import annotations

import numpy as np

from levelfield.analysis import Analysis
from levelfield.records import Store
from levelfield.reports.figures._registry import register
from levelfield.reports.figures.charts import (
    GRAY,
    Array,
    Axis,
    IntervalChart,
    IntervalRow,
    MatrixChart,
    Panel,
    PanelChart,
    Trace,
)

ROUNDING = 1e-7  # singular values below this share are rounding errors of float32


COLORED = 8  # with more methods only the best have a color


def method_colors(analysis: Analysis) -> dict[str, int]:
    """Return the color of each method, the same in all charts of a report: best first, the rest gray.

    The baseline is gray.
    """
    baseline = analysis.comparison.baseline
    names = [name for name in analysis.means if name != baseline]
    names += [result.method for result in analysis.comparison.trained if result.method not in names]
    found = {name: number if number < COLORED else GRAY for number, name in enumerate(names)}
    return {**found, baseline: GRAY}


@register("scores")
def scores(analysis: Analysis) -> IntervalChart:
    """Return dots with intervals of the main metric, best method first; disjoint intervals differ."""
    metric_info, colors = analysis.metric_info, method_colors(analysis)
    rows = []
    for method in analysis.means:
        interval = analysis.interval(method, analysis.setting, metric_info.name)
        rows.append(
            IntervalRow(
                method,
                metric_info.scale * interval.mean,
                metric_info.scale * interval.half_width if interval.n > 1 else None,
                metric_info.shown(interval.mean),
                colors[method],
                "baseline" if method == analysis.comparison.baseline else "",
            )
        )
    title = f"Test {metric_info.axis}, {analysis.setting}: methods differ if their intervals do not overlap"
    return IntervalChart(title, metric_info.axis, tuple(rows))


@register("learning-curves")
def learning_curves(analysis: Analysis) -> PanelChart | None:
    """Return validation scores by epoch, a line per fold of the selected trials; None without logs."""
    comparison = analysis.comparison
    metric_info = comparison.metric_infos[comparison.experiment.training.metric]
    traces = []
    colors = method_colors(analysis)
    for result in comparison.trained:
        color = colors[result.method]
        chosen = result.selection.trial
        runs = next((trial.runs for trial in result.trials if trial.number == chosen), ())
        for fold, run in enumerate(runs):
            log = Store(analysis.root).run(run).log()
            if not log:  # published records may not have the runs
                continue
            x = tuple(float(line.epoch) for line in log)
            y = tuple(metric_info.scale * line.scores[metric_info.name] for line in log)
            hover_texts = tuple(f"fold {fold}" for _ in log)
            traces.append(Trace(result.method, x, y, "line", color, hover_texts, hide_legend=fold > 0))
    if not traces:
        return None
    which = "" if comparison.experiment.search.repeats == 1 else " of the first search"
    title = f"Validation {metric_info.axis} of the selected trial{which}, one line per fold"
    return PanelChart(
        title, Axis(metric_info.axis), (Panel(Axis("epoch", integer_ticks=True), tuple(traces)),)
    )


@register("metric-correlation")
def metric_correlation(analysis: Analysis) -> MatrixChart | None:
    """Return the correlation of metrics over all models; None with one metric or under 3 models."""
    metrics = analysis.comparison.metrics
    table = [
        [fold[metric] for metric in metrics]
        for confirmation in analysis.confirmations.values()
        for rerun in confirmation.reruns.values()
        for fold in rerun.folds
        if all(metric in fold for metric in metrics)
    ]
    if len(metrics) < 2 or len(table) < 3:
        return None
    values = np.array(table, dtype=np.float64)
    values[:, np.ptp(values, axis=0) <= 1e-12 * np.abs(values).max(axis=0)] = np.nan  # constant
    matrix: Array = np.asarray(np.corrcoef(values, rowvar=False))
    labels = tuple(analysis.comparison.metric_infos[metric].label for metric in metrics)
    return MatrixChart(f"Correlation of metrics over {len(table)} models (folds of reruns)", labels, matrix)


@register("spectra")
def spectra(analysis: Analysis) -> PanelChart | None:
    """Return singular values of the concatenated test embeddings, mean over reruns; None if not on record."""
    traces, colors = [], method_colors(analysis)
    for method, confirmation in analysis.confirmations.items():
        color, found = colors[method], confirmation.spectra()
        if not found:
            continue
        length = min(len(values) for values in found)
        mean = np.mean([values[:length] for values in found], axis=0)
        kept = mean[mean > ROUNDING].tolist()
        x = tuple(float(number) for number in range(1, len(kept) + 1))
        traces.append(Trace(method, x, tuple(kept), "line", color))
    if not traces:
        return None
    title = "Spectra of the concatenated test embeddings, mean over reruns"
    panel = Panel(Axis("singular value", integer_ticks=True), tuple(traces))
    return PanelChart(title, Axis("share of the sum", log=True), (panel,))


@register("rho-against-score")
def rho_against_score(analysis: Analysis) -> PanelChart | None:
    """Return the spectral decay rho of each rerun against its score; None if spectra are not on record.

    Low rho means that the embedding uses its directions evenly. "Revisiting Training Strategies" finds that
    it correlates with good generalization.
    """
    metric_info, traces, colors = analysis.metric_info, [], method_colors(analysis)
    for method, confirmation in analysis.confirmations.items():
        color = colors[method]
        scores = confirmation.scores(analysis.setting, metric_info.name)
        spectra_found = confirmation.spectra_by_rerun()
        points = [
            (decay, metric_info.scale * score)
            for number, score in scores.items()
            if number in spectra_found and np.isfinite(decay := spectral_decay(spectra_found[number]))
        ]
        if points:
            x, y = zip(*points, strict=True)
            traces.append(Trace(method, x, y, color=color))
    if not traces:
        return None
    title = f"Spectral decay against test {metric_info.axis}, a point per rerun"
    return PanelChart(title, Axis(metric_info.axis), (Panel(Axis("rho (lower: richer)"), tuple(traces)),))


def spectral_decay(shares: Array) -> float:
    """Compute rho: KL(uniform || spectrum) of singular values (p), sorted, without the largest.

    It is infinite if a direction is unused.

    Example:
        >>> spectral_decay(np.array([0.5, 0.25, 0.25]))
        0.0
    """
    rest = shares[1:]
    if len(rest) == 0 or rest[-1] <= shares[0] * 2.0**-22:
        return float("inf")
    return float(-np.log(rest / rest.sum()).mean() - np.log(len(rest)))
