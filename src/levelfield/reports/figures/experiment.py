"""An experiment in pictures: scores, learning curves, how measures go together, spectra."""

from __future__ import annotations

import numpy as np

from levelfield.metrics import correlation
from levelfield.protocol import Comparison
from levelfield.records import Store
from levelfield.reports._evidence import Evidence, main_metric
from levelfield.reports._tables import metric_name
from levelfield.reports.figures.charts import Axis, MatrixChart, PanelChart, Trace
from levelfield.reports.figures.published import Bar, BarChart

SETTINGS = ("separated", "concatenated")
ROUNDING = 1e-7  # singular values below this share are rounding errors of float32


def scores(comparison: Comparison) -> BarChart:
    """The selection metric of every method, separated and concatenated, with its interval."""
    metric = main_metric(comparison)
    series: dict[str, dict[str, Bar]] = {setting: {} for setting in SETTINGS}
    for result in comparison.results:
        for setting, bars in series.items():
            if result.scores[setting][metric]:
                interval = result.interval(setting, metric)
                bars[result.method] = Bar(
                    100 * interval.mean,
                    100 * interval.half_width if interval.n > 1 else None,
                    remark=f"{interval.n} reruns",
                )
    title = f"Test {metric_name(metric)} (%), mean and 95% interval"
    groups = tuple(result.method for result in comparison.results)
    return BarChart(title, f"{metric_name(metric)} (%)", groups, series)


def learning_curves(evidence: Evidence) -> PanelChart | None:
    """Validation score against the epoch, a line per fold of each method's selected trial; None without."""
    comparison = evidence.comparison
    metric = comparison.experiment["training"]["metric"]
    traces = []
    for colour, result in enumerate(comparison.trained):
        for fold, run in enumerate(result.trials[result.selection["trial"]]["runs"]):
            log = Store(evidence.root).run(run).log()
            x = tuple(float(line.epoch) for line in log)
            y = tuple(100 * line.scores[metric] for line in log)
            remarks = tuple(f"fold {fold}" for _ in log)
            traces.append(Trace(result.method, x, y, "line", colour, remarks, quiet=fold > 0))
    if not traces:
        return None
    name = metric_name(metric)
    title = f"Validation {name} (%) of the selected trial, one line per fold"
    return PanelChart(title, Axis(f"{name} (%)"), ((Axis("epoch"), tuple(traces)),))


def metric_correlation(evidence: Evidence) -> MatrixChart | None:
    """How the measures go together over every fold of every rerun; None with one measure or under 3 folds."""
    metrics = evidence.comparison.metrics
    table = [
        {metric_name(metric): fold[metric] for metric in metrics}
        for confirmation in evidence.confirmations.values()
        for rerun in confirmation.reruns.values()
        for fold in rerun["folds"]
        if all(metric in fold for metric in metrics)
    ]
    if len(metrics) < 2 or len(table) < 3:
        return None
    found = correlation(table)
    title = f"Correlation of measures over {found.runs} models (folds of reruns)"
    return MatrixChart(title, found.names, found.matrix)


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
    return PanelChart(title, Axis("share of the sum", log=True), ((Axis("singular value"), tuple(traces)),))
