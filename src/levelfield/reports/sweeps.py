"""Sweeps as tables and figures, like Figures 2, 3 and 7 of "Revisiting Training Strategies".

For each method, every metric is divided by its best value over the factor's values; differences are then
relative ones, and metrics can be averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from levelfield.compare import Comparison, Measure, collect
from levelfield.records import write_text
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace, write_chart
from levelfield.reports.table import Cell, Entry, Table
from levelfield.stats import Interval

if TYPE_CHECKING:
    from levelfield.protocol import SweepPoint

SETTING = "separated"  # single models, as in the paper


@dataclass(frozen=True)
class SweepScore:
    """One method's test score by one metric at one value; ``relative`` to the best of the factor's values."""

    factor: str
    value: str
    method: str
    measure: Measure
    score: Interval
    relative: float


def sweep_scores(points: Sequence[SweepPoint]) -> list[SweepScore]:
    """The scores of a sweep that has been carried out. Methods whose reruns all failed are left out."""
    scores = []
    for factor, group in _by_factor(points):
        comparisons = {point.label: collect(point.folder) for point in group}
        first = next(iter(comparisons.values()))
        for method in [result.method for result in first.trained]:
            for measure in scored_measures(first):
                found = {
                    value: interval
                    for value, comparison in comparisons.items()
                    if (interval := _score(comparison, method, measure)) is not None
                }
                relative = relative_to_best({v: i.mean for v, i in found.items()}, measure)
                scores += [
                    SweepScore(factor, value, method, measure, found[value], share)
                    for value, share in relative.items()
                ]
    return scores


def relative_to_best(means: dict[str, float], measure: Measure) -> dict[str, float]:
    """Each mean as a share of the best one, which has 1; empty unless all are above zero.

    Example:
        >>> loss = Measure(name="alignment", label="alignment", higher_is_better=False)
        >>> relative_to_best({"32": 0.5, "64": 1.0}, loss)
        {'32': 1.0, '64': 0.5}
    """
    if not means or min(means.values()) < 0 or max(means.values()) <= 0:
        return {}
    if measure.higher_is_better:
        best = max(means.values())
        return {value: mean / best for value, mean in means.items()}
    best = min(means.values())
    return {value: best / mean if mean > 0 else 1.0 for value, mean in means.items()}


def scored_measures(comparison: Comparison) -> list[Measure]:
    """The metrics that say what is better; the others only describe."""
    measures = [comparison.measures[metric] for metric in comparison.metrics]
    return [measure for measure in measures if measure.higher_is_better is not None]


def _score(comparison: Comparison, method: str, measure: Measure) -> Interval | None:
    for result in comparison.results:
        if result.method == method and result.scores[SETTING][measure.name]:
            return result.interval(SETTING, measure.name)
    return None


def _by_factor(points: Sequence[SweepPoint]) -> Iterator[tuple[str, list[SweepPoint]]]:
    for factor in dict.fromkeys(point.factor for point in points):
        yield factor, [point for point in points if point.factor == factor]


def relative_mean(cells: Sequence[SweepScore], value: str, method: str | None = None) -> float:
    """Mean relative score at a value: over the metrics of one method, or over all pairs of the two."""
    chosen = [c.relative for c in cells if c.value == value and method in (None, c.method)]
    return fmean(chosen) if chosen else math.nan


def write_sweep(points: Sequence[SweepPoint], out: Path) -> list[Path]:
    """Write ``sweep.md``, ``sweep.csv`` and two figures per factor into ``out``; the files written."""
    cells = sweep_scores(points)
    files = [out / "sweep.md", out / "sweep.csv"]
    write_text(files[0], sweep_markdown(points, cells))
    write_text(files[1], sweep_table(cells).csv())
    for factor, _ in _by_factor(points):
        mine = [cell for cell in cells if cell.factor == factor]
        if mine:
            files += write_chart(relative_chart(mine), out, f"{factor}-relative")
            files += write_chart(score_chart(mine, _first_metric(points, factor)), out, f"{factor}-scores")
    return files


def _first_metric(points: Sequence[SweepPoint], factor: str) -> str:
    """The metric that the experiment selects by, or the first that it tests."""
    point = next(point for point in points if point.factor == factor)
    tested = [measure.name for measure in scored_measures(collect(point.folder))]
    wanted = point.experiment.training.metric
    return wanted if wanted in tested else tested[0]


def sweep_table(cells: Sequence[SweepScore]) -> Table:
    """One line per factor, value, method and metric, in full precision."""
    heads = ("factor", "value", "method", "metric", "mean", "half_width_95", "reruns", "relative_to_best")
    rows = []
    for cell in cells:
        half = None if cell.score.n < 2 else float(cell.score.half_width)
        numbers = (float(cell.score.mean), half, cell.score.n, cell.relative)
        rows.append([cell.factor, cell.value, cell.method, cell.measure.name, *numbers])
    return Table.of(heads, rows)


def relative_table(cells: Sequence[SweepScore], values: Sequence[str]) -> Table:
    """A factor's values against the methods: relative scores in percent, mean over the metrics."""
    methods = list(dict.fromkeys(cell.method for cell in cells))
    rows: list[list[Entry]] = []
    for value in values:
        means = [relative_mean(cells, value, method) for method in (*methods, None)]
        rows.append([value, *(Cell("-" if math.isnan(m) else f"{100 * m:.1f}", value=m) for m in means)])
    return Table.of([cells[0].factor if cells else "", *methods, "all"], rows)


def sweep_markdown(points: Sequence[SweepPoint], cells: Sequence[SweepScore]) -> str:
    """A table per factor: relative scores in percent, mean over the metrics."""
    lines = ["# Sweep", "", *_caveats(points)]
    for factor, group in _by_factor(points):
        mine = [cell for cell in cells if cell.factor == factor]
        metrics = ", ".join(dict.fromkeys(cell.measure.label for cell in mine))
        table = relative_table(mine, list(dict.fromkeys(point.label for point in group)))
        summary = f"Percent of each method's best value, mean over {metrics}."
        lines += [f"## {factor}", "", summary, "", table.markdown(), ""]
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


def relative_chart(cells: Sequence[SweepScore]) -> PanelChart:
    """Left, as Figure 2: each method's mean relative score. Right, as Figure 3: all pairs with a metric."""
    values = list(dict.fromkeys(cell.value for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    axis = Axis(cells[0].factor, ticks=tuple(values))
    positions = tuple(float(number) for number in range(len(values)))
    lines = tuple(
        Trace(
            name=method,
            x=positions,
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
            remarks=tuple(c.measure.label for c in cells if c.method == method),
            quiet=True,
        )
        for index, method in enumerate(methods)
    )
    mean = Trace(
        name="mean of all pairs",
        x=positions,
        y=tuple(100 * relative_mean(cells, value) for value in values),
        kind="line",
        colour=len(methods),
    )
    title = (
        f"{cells[0].factor}: scores relative to each method's best; left: mean over metrics, right: all pairs"
    )
    return PanelChart(
        title=title, y=Axis("% of the best value"), panels=(Panel(axis, lines), Panel(axis, (*pairs, mean)))
    )


def score_chart(cells: Sequence[SweepScore], metric: str) -> PanelChart:
    """As Figure 7: each method's score itself, with the ends of its interval."""
    chosen = [cell for cell in cells if cell.measure.name == metric]
    measure = chosen[0].measure
    values = list(dict.fromkeys(cell.value for cell in chosen))
    traces = []
    for index, method in enumerate(dict.fromkeys(cell.method for cell in chosen)):
        mine = [cell for cell in chosen if cell.method == method]
        x = tuple(float(values.index(cell.value)) for cell in mine)
        traces.append(
            Trace(method, x, tuple(measure.scale * c.score.mean for c in mine), kind="line", colour=index)
        )
        ends = [
            (position, measure.scale * end)
            for position, cell in zip(x, mine, strict=True)
            if cell.score.n > 1
            for end in (cell.score.low, cell.score.high)
        ]
        if ends:
            across, up = zip(*ends, strict=True)
            traces.append(Trace(method, across, up, colour=index, quiet=True))
    return PanelChart(
        title=f"{cells[0].factor}: test {measure.axis}, mean; dots: the ends of its 95% interval",
        y=Axis(measure.axis),
        panels=(Panel(Axis(cells[0].factor, ticks=tuple(values)), tuple(traces)),),
    )


def _offset(index: int, count: int) -> float:
    """A small shift to the side, so that the methods' points do not hide each other."""
    return 0.5 * ((index + 0.5) / count - 0.5)
