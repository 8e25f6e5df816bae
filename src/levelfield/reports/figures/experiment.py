"""An experiment in pictures: scores, learning curves, how measures go together, spectra."""

from __future__ import annotations

import numpy as np

from levelfield.compare import SETTINGS, Evidence, Result
from levelfield.records import Store
from levelfield.reports.figures._registry import register
from levelfield.reports.figures.charts import (
    Array,
    Axis,
    Bar,
    BarChart,
    MatrixChart,
    Panel,
    PanelChart,
    Trace,
)

ROUNDING = 1e-7  # singular values below this share are rounding errors of float32


@register("scores")
def scores(evidence: Evidence) -> BarChart:
    """The selection metric of every method, separated and concatenated, with its interval."""
    comparison = evidence.comparison
    measure = comparison.measures[comparison.main_metric]
    series: dict[str, dict[str, Bar]] = {setting: {} for setting in SETTINGS}
    for result in comparison.results:
        for setting, bars in series.items():
            interval = result.interval(setting, measure.name)
            if interval.n:
                bars[result.method] = Bar(
                    measure.scale * interval.mean,
                    measure.scale * interval.half_width if interval.n > 1 else None,
                    remark=over(result),
                )
    groups = tuple(result.method for result in comparison.results)
    return BarChart(f"Test {measure.axis}, mean and 95% interval", measure.axis, groups, series)


def over(result: Result) -> str:
    """What the mean of a method is over."""
    reruns = f"{sum(len(repeat.scored) for repeat in result.repeats)} reruns"
    return reruns if len(result.repeats) == 1 else f"{len(result.repeats)} searches, {reruns}"


@register("learning-curves")
def learning_curves(evidence: Evidence) -> PanelChart | None:
    """Validation score against the epoch, a line per fold of each method's selected trial; None without."""
    comparison = evidence.comparison
    measure = comparison.measures[comparison.experiment.training.metric]
    traces = []
    for colour, result in enumerate(comparison.trained):
        chosen = result.selection.trial
        runs = next((trial.runs for trial in result.trials if trial.number == chosen), ())
        for fold, run in enumerate(runs):
            log = Store(evidence.root).run(run).log()
            if not log:  # the folder was handed on without its runs
                continue
            x = tuple(float(line.epoch) for line in log)
            y = tuple(measure.scale * line.scores[measure.name] for line in log)
            remarks = tuple(f"fold {fold}" for _ in log)
            traces.append(Trace(result.method, x, y, "line", colour, remarks, quiet=fold > 0))
    if not traces:
        return None
    which = "" if comparison.experiment.search.repeats == 1 else " of the first search"
    title = f"Validation {measure.axis} of the selected trial{which}, one line per fold"
    return PanelChart(title, Axis(measure.axis), (Panel(Axis("epoch", whole=True), tuple(traces)),))


@register("metric-correlation")
def metric_correlation(evidence: Evidence) -> MatrixChart | None:
    """How the measures go together over every fold of every rerun; None with one measure or under 3 folds."""
    metrics = evidence.comparison.metrics
    table = [
        [fold[metric] for metric in metrics]
        for confirmation in evidence.confirmations.values()
        for rerun in confirmation.reruns.values()
        for fold in rerun.folds
        if all(metric in fold for metric in metrics)
    ]
    if len(metrics) < 2 or len(table) < 3:
        return None
    values = np.array(table, dtype=np.float64)
    values[:, np.ptp(values, axis=0) <= 1e-12 * np.abs(values).max(axis=0)] = np.nan  # it never changes
    matrix: Array = np.asarray(np.corrcoef(values, rowvar=False))
    labels = tuple(evidence.comparison.measures[metric].label for metric in metrics)
    return MatrixChart(f"Correlation of measures over {len(table)} models (folds of reruns)", labels, matrix)


@register("spectra")
def spectra(evidence: Evidence) -> PanelChart | None:
    """Singular values of the concatenated test embeddings, mean over reruns; None if not on record."""
    traces = []
    for colour, (method, confirmation) in enumerate(evidence.confirmations.items()):
        found = confirmation.spectra()
        if not found:
            continue
        length = min(len(values) for values in found)
        mean = np.mean([values[:length] for values in found], axis=0)
        kept = mean[mean > ROUNDING].tolist()
        x = tuple(float(number) for number in range(1, len(kept) + 1))
        traces.append(Trace(method, x, tuple(kept), "line", colour))
    if not traces:
        return None
    title = "Spectra of the concatenated test embeddings, mean over reruns"
    panel = Panel(Axis("singular value", whole=True), tuple(traces))
    return PanelChart(title, Axis("share of the sum", log=True), (panel,))


@register("rho-against-score")
def rho_against_score(evidence: Evidence) -> PanelChart | None:
    """The spectral decay rho of each rerun's concatenated test embeddings against its score; None without.

    Low rho is a space that uses its directions evenly. "Revisiting Training Strategies" finds that it goes
    with good generalisation.
    """
    measure, traces = evidence.measure, []
    for colour, (method, confirmation) in enumerate(evidence.confirmations.items()):
        scores = confirmation.scores(evidence.setting, measure.name)
        spectra_found = confirmation.spectra_by_rerun()
        points = [
            (decay, measure.scale * score)
            for number, score in scores.items()
            if number in spectra_found and np.isfinite(decay := spectral_decay(spectra_found[number]))
        ]
        if points:
            x, y = zip(*points, strict=True)
            traces.append(Trace(method, x, y, colour=colour))
    if not traces:
        return None
    title = f"Spectral decay against test {measure.axis}, a point per rerun"
    return PanelChart(title, Axis(measure.axis), (Panel(Axis("rho (lower: richer)"), tuple(traces)),))


def spectral_decay(shares: Array) -> float:
    """rho: KL(uniform || spectrum) of singular values (p), largest first, without the largest.

    Infinite where a direction is unused.

    Example:
        >>> spectral_decay(np.array([0.5, 0.25, 0.25]))
        0.0
    """
    rest = shares[1:]
    if len(rest) == 0 or rest[-1] <= shares[0] * 2.0**-22:
        return float("inf")
    return float(-np.log(rest / rest.sum()).mean() - np.log(len(rest)))
