"""Sweeps as tables and figures, like Figures 2, 3 and 7 of "Revisiting Training Strategies".

For each method, every metric is divided by its maximum over the factor's values; differences are then
relative ones, and metrics can be averaged.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from levelfield.metrics import resolve
from levelfield.protocol import Comparison, collect
from levelfield.protocol._sweep import SweepPoint, factors_of
from levelfield.records import write_text
from levelfield.reports._tables import metric_name
from levelfield.reports.figures.charts import Axis, PanelChart, Trace
from levelfield.reports.figures.files import write_chart
from levelfield.stats import Interval

SETTING = "separated"  # single models, as in the paper


@dataclass(frozen=True)
class Cell:
    """One method's test score by one metric at one value; ``relative`` to the best of the factor's values."""

    factor: str
    value: str
    method: str
    metric: str
    score: Interval
    relative: float


def sweep_cells(points: Sequence[SweepPoint]) -> list[Cell]:
    """The scores of a sweep that has been carried out. Methods whose reruns all failed are left out."""
    cells = []
    for factor, group in factors_of(points):
        found = {point.label: collect(point.folder) for point in group}
        first = next(iter(found.values()))
        for method in [result.method for result in first.trained]:
            for metric in scored_metrics(first):
                scores = {value: _score(comparison, method, metric) for value, comparison in found.items()}
                best = max((score.mean for score in scores.values() if score is not None), default=0.0)
                cells += [
                    Cell(factor, value, method, metric, score, score.mean / best)
                    for value, score in scores.items()
                    if score is not None and best > 0
                ]
    return cells


def scored_metrics(comparison: Comparison) -> list[str]:
    """The metrics of which more is better; measures of structure say nothing of better or worse."""
    return [metric for metric in comparison.metrics if resolve(metric).card.kind != "structure"]


def _score(comparison: Comparison, method: str, metric: str) -> Interval | None:
    for result in comparison.results:
        if result.method == method and result.scores[SETTING][metric]:
            return result.interval(SETTING, metric)
    return None


def relative_mean(cells: Sequence[Cell], value: str, method: str | None = None) -> float:
    """Mean relative score at a value: over the metrics of one method, or over all pairs of the two."""
    chosen = [c.relative for c in cells if c.value == value and method in (None, c.method)]
    return fmean(chosen) if chosen else math.nan


def write_sweep(points: Sequence[SweepPoint], out: Path) -> list[Path]:
    """Write ``sweep.md``, ``sweep.csv`` and two figures per factor into ``out``; the files written."""
    cells = sweep_cells(points)
    files = [out / "sweep.md", out / "sweep.csv"]
    write_text(files[0], sweep_markdown(points, cells))
    write_text(files[1], sweep_csv(cells))
    for factor, _ in factors_of(points):
        mine = [cell for cell in cells if cell.factor == factor]
        if mine:
            files += write_chart(relative_chart(mine), out, f"{factor}-relative")
            files += write_chart(score_chart(mine, _first_metric(points, factor)), out, f"{factor}-scores")
    return files


def _first_metric(points: Sequence[SweepPoint], factor: str) -> str:
    """The metric that the experiment selects by, or the first that it tests."""
    point = next(point for point in points if point.factor == factor)
    tested = scored_metrics(collect(point.folder))
    wanted = point.experiment.training.metric
    return wanted if wanted in tested else tested[0]


def sweep_csv(cells: Sequence[Cell]) -> str:
    """One line per factor, value, method and metric, in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["factor", "value", "method", "metric", "mean", "half_width_95", "reruns", "relative_to_best"]
    )
    for cell in cells:
        half = "" if cell.score.n < 2 else repr(cell.score.half_width)
        numbers = [repr(cell.score.mean), half, cell.score.n, repr(cell.relative)]
        writer.writerow([cell.factor, cell.value, cell.method, cell.metric, *numbers])
    return text.getvalue()


def sweep_markdown(points: Sequence[SweepPoint], cells: Sequence[Cell]) -> str:
    """A table per factor: relative scores in percent, mean over the metrics."""
    lines = ["# Sweep", "", *_caveats(points)]
    for factor, group in factors_of(points):
        mine = [cell for cell in cells if cell.factor == factor]
        methods = list(dict.fromkeys(cell.method for cell in mine))
        metrics = ", ".join(metric_name(m) for m in dict.fromkeys(cell.metric for cell in mine))
        lines += [
            f"## {factor}",
            "",
            f"Percent of each method's best value, mean over {metrics}.",
            "",
            "| " + " | ".join([factor, *methods, "all"]) + " |",
            "|---" * (len(methods) + 2) + "|",
        ]
        for value in dict.fromkeys(point.label for point in group):
            means = [relative_mean(mine, value, method) for method in (*methods, None)]
            lines.append("| " + " | ".join([value, *(_percent(mean) for mean in means)]) + " |")
        lines.append("")
    return "\n".join(lines)


def _caveats(points: Sequence[SweepPoint]) -> list[str]:
    lines = [
        "These are test scores: they describe what a factor does. A value chosen by them has had test "
        "feedback; choose by validation scores, or say so.",
        "",
    ]
    if points[0].experiment.hyperparameters == "search":
        lines += [
            "Hyperparameters were searched for every value; `hyperparameters: defaults` keeps them fixed.",
            "",
        ]
    return lines


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"


def relative_chart(cells: Sequence[Cell]) -> PanelChart:
    """Left, as Figure 2: each method's mean relative score. Right, as Figure 3: all pairs with a metric."""
    values = list(dict.fromkeys(cell.value for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    axis = Axis(cells[0].factor, ticks=tuple(values))
    places = tuple(float(place) for place in range(len(values)))
    lines = tuple(
        Trace(
            name=method,
            x=places,
            y=tuple(100 * relative_mean(cells, value, method) for value in values),
            kind="line",
            colour=index,
        )
        for index, method in enumerate(methods)
    )
    pairs = tuple(
        Trace(
            name=method,
            x=tuple(
                values.index(c.value) + _offset(index, len(methods)) for c in cells if c.method == method
            ),
            y=tuple(100 * c.relative for c in cells if c.method == method),
            colour=index,
            remarks=tuple(metric_name(c.metric) for c in cells if c.method == method),
            quiet=True,
        )
        for index, method in enumerate(methods)
    )
    mean = Trace(
        name="mean of all pairs",
        x=places,
        y=tuple(100 * relative_mean(cells, value) for value in values),
        kind="line",
        colour=len(methods),
    )
    title = (
        f"{cells[0].factor}: scores relative to each method's best; left: mean over metrics, right: all pairs"
    )
    return PanelChart(
        title=title, y=Axis("% of the best value"), panels=((axis, lines), (axis, (*pairs, mean)))
    )


def score_chart(cells: Sequence[Cell], metric: str) -> PanelChart:
    """As Figure 7: each method's score itself, with the ends of its interval."""
    chosen = [cell for cell in cells if cell.metric == metric]
    values = list(dict.fromkeys(cell.value for cell in chosen))
    traces = []
    for index, method in enumerate(dict.fromkeys(cell.method for cell in chosen)):
        mine = [cell for cell in chosen if cell.method == method]
        x = tuple(float(values.index(cell.value)) for cell in mine)
        traces.append(Trace(method, x, tuple(100 * c.score.mean for c in mine), kind="line", colour=index))
        ends = [
            (place, 100 * end)
            for place, cell in zip(x, mine, strict=True)
            if cell.score.n > 1
            for end in (cell.score.low, cell.score.high)
        ]
        if ends:
            across, up = zip(*ends, strict=True)
            traces.append(Trace(method, across, up, colour=index, quiet=True))
    return PanelChart(
        title=f"{cells[0].factor}: test {metric_name(metric)} (%), mean; dots: the ends of its 95% interval",
        y=Axis("%"),
        panels=((Axis(cells[0].factor, ticks=tuple(values)), tuple(traces)),),
    )


def _offset(index: int, count: int) -> float:
    """A small shift to the side, so that the methods' points do not hide each other."""
    return 0.5 * ((index + 0.5) / count - 0.5)
