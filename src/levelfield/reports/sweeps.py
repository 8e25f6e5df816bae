"""Tables and figures of sweeps, like Figures 2, 3 and 7 of "Revisiting Training Strategies".

For each method, each metric is divided by its best value over the values of the factor. The relative scores
of different metrics can then be averaged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from levelfield.analysis import Comparison, MetricInfo, read_comparison
from levelfield.records import write_text
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace, write_chart
from levelfield.reports.table import Table, TableCell, TableEntry
from levelfield.stats import Interval

if TYPE_CHECKING:
    from levelfield.protocol import SweepPoint

SETTING = "separated"  # single models, as in the paper


@dataclass(frozen=True)
class SweepScore:
    """Test score of one method by one metric at one value of a factor.

    ``relative`` is the score as a share of the best over the values of the factor.
    """

    factor: str
    value: str
    method: str
    metric_info: MetricInfo
    score: Interval
    relative: float


def sweep_scores(points: Sequence[SweepPoint]) -> list[SweepScore]:
    """Return the scores of a finished sweep, without methods whose reruns all failed."""
    scores = []
    for factor, group in _by_factor(points):
        comparisons = {point.label: read_comparison(point.directory) for point in group}
        first = next(iter(comparisons.values()))
        for method in [result.method for result in first.trained]:
            for metric_info in directed_metrics(first):
                found = {
                    value: interval
                    for value, comparison in comparisons.items()
                    if (interval := _score(comparison, method, metric_info)) is not None
                }
                relative = relative_to_best({v: i.mean for v, i in found.items()}, metric_info)
                scores += [
                    SweepScore(factor, value, method, metric_info, found[value], share)
                    for value, share in relative.items()
                ]
    return scores


def relative_to_best(means: dict[str, float], metric_info: MetricInfo) -> dict[str, float]:
    """Return each mean as a share of the best mean, which is 1; empty if a mean is negative or all are 0.

    Example:
        >>> loss = MetricInfo(name="alignment", label="alignment", higher_is_better=False)
        >>> relative_to_best({"32": 0.5, "64": 1.0}, loss)
        {'32': 1.0, '64': 0.5}
    """
    if not means or min(means.values()) < 0 or max(means.values()) <= 0:
        return {}
    if metric_info.higher_is_better:
        best = max(means.values())
        return {value: mean / best for value, mean in means.items()}
    best = min(means.values())
    return {value: best / mean if mean > 0 else 1.0 for value, mean in means.items()}


def directed_metrics(comparison: Comparison) -> list[MetricInfo]:
    """Return the metrics that have a direction."""
    metric_infos = [comparison.metric_infos[metric] for metric in comparison.metrics]
    return [metric_info for metric_info in metric_infos if metric_info.higher_is_better is not None]


def _score(comparison: Comparison, method: str, metric_info: MetricInfo) -> Interval | None:
    for result in comparison.results:
        if result.method == method and result.scores[SETTING][metric_info.name]:
            return result.seed_interval(SETTING, metric_info.name)
    return None


def _by_factor(points: Sequence[SweepPoint]) -> Iterator[tuple[str, list[SweepPoint]]]:
    for factor in dict.fromkeys(point.factor for point in points):
        yield factor, [point for point in points if point.factor == factor]


def relative_mean(cells: Sequence[SweepScore], value: str, method: str | None = None) -> float:
    """Return the mean relative score at a value, over metrics and one method, or all methods."""
    chosen = [c.relative for c in cells if c.value == value and method in (None, c.method)]
    return fmean(chosen) if chosen else math.nan


def write_sweep(points: Sequence[SweepPoint], out: Path) -> list[Path]:
    """Write ``sweep.md``, ``sweep.csv`` and two figures per factor into ``out``; return the written files."""
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
    """Return the selection metric, or the first test metric if the selection metric is not tested."""
    point = next(point for point in points if point.factor == factor)
    tested = [metric_info.name for metric_info in directed_metrics(read_comparison(point.directory))]
    wanted = point.experiment.training.metric
    return wanted if wanted in tested else tested[0]


def sweep_table(cells: Sequence[SweepScore]) -> Table:
    """Return a table with one line per factor, value, method and metric, in full precision."""
    heads = ("factor", "value", "method", "metric", "mean", "half_width_95", "reruns", "relative_to_best")
    rows = []
    for cell in cells:
        half = None if cell.score.n < 2 else float(cell.score.half_width)
        numbers = (float(cell.score.mean), half, cell.score.n, cell.relative)
        rows.append([cell.factor, cell.value, cell.method, cell.metric_info.name, *numbers])
    return Table.from_rows(heads, rows)


def relative_table(cells: Sequence[SweepScore], values: Sequence[str]) -> Table:
    """Return relative scores in percent, mean over the metrics: a row per value, a column per method."""
    methods = list(dict.fromkeys(cell.method for cell in cells))
    rows: list[list[TableEntry]] = []
    for value in values:
        means = [relative_mean(cells, value, method) for method in (*methods, None)]
        rows.append([value, *(TableCell("-" if math.isnan(m) else f"{100 * m:.1f}", value=m) for m in means)])
    return Table.from_rows([cells[0].factor if cells else "", *methods, "all"], rows)


def sweep_markdown(points: Sequence[SweepPoint], cells: Sequence[SweepScore]) -> str:
    """Return the report in Markdown: a table of relative scores per factor."""
    lines = ["# Sweep", "", *_caveats(points)]
    for factor, group in _by_factor(points):
        mine = [cell for cell in cells if cell.factor == factor]
        metrics = ", ".join(dict.fromkeys(cell.metric_info.label for cell in mine))
        table = relative_table(mine, list(dict.fromkeys(point.label for point in group)))
        summary = f"Percent of each method's best value, mean over {metrics}."
        lines += [f"## {factor}", "", summary, "", table.markdown(), ""]
    return "\n".join(lines)


def _caveats(points: Sequence[SweepPoint]) -> list[str]:
    lines = [
        "These are test scores. They show the effect of a factor. Choosing a value by them is test "
        "feedback; choose by validation scores, or report it.",
        "",
    ]
    if points[0].experiment.hyperparameters == "search":
        lines += [
            "Hyperparameters were searched for every value; `hyperparameters: defaults` keeps them fixed.",
            "",
        ]
    return lines


def relative_chart(cells: Sequence[SweepScore]) -> PanelChart:
    """Return a chart of relative scores: means per method (Figure 2), and all scores (Figure 3)."""
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
            color=index,
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
            color=index,
            hover_texts=tuple(c.metric_info.label for c in cells if c.method == method),
            hide_legend=True,
        )
        for index, method in enumerate(methods)
    )
    mean = Trace(
        name="mean of all pairs",
        x=positions,
        y=tuple(100 * relative_mean(cells, value) for value in values),
        kind="line",
        color=len(methods),
    )
    title = (
        f"{cells[0].factor}: scores relative to each method's best; left: mean over metrics, right: all pairs"
    )
    return PanelChart(
        title=title, y=Axis("% of the best value"), panels=(Panel(axis, lines), Panel(axis, (*pairs, mean)))
    )


def score_chart(cells: Sequence[SweepScore], metric: str) -> PanelChart:
    """Return a chart of scores per method with the ends of their intervals (Figure 7)."""
    chosen = [cell for cell in cells if cell.metric_info.name == metric]
    metric_info = chosen[0].metric_info
    values = list(dict.fromkeys(cell.value for cell in chosen))
    traces = []
    for index, method in enumerate(dict.fromkeys(cell.method for cell in chosen)):
        mine = [cell for cell in chosen if cell.method == method]
        x = tuple(float(values.index(cell.value)) for cell in mine)
        traces.append(
            Trace(method, x, tuple(metric_info.scale * c.score.mean for c in mine), kind="line", color=index)
        )
        ends = [
            (position, metric_info.scale * end)
            for position, cell in zip(x, mine, strict=True)
            if cell.score.n > 1
            for end in (cell.score.low, cell.score.high)
        ]
        if ends:
            ends_x, ends_y = zip(*ends, strict=True)
            traces.append(Trace(method, ends_x, ends_y, color=index, hide_legend=True))
    return PanelChart(
        title=f"{cells[0].factor}: test {metric_info.axis}, mean; dots: the ends of its 95% interval",
        y=Axis(metric_info.axis),
        panels=(Panel(Axis(cells[0].factor, ticks=tuple(values)), tuple(traces)),),
    )


def _offset(index: int, count: int) -> float:
    """Return a horizontal offset, so that the points of different methods do not overlap."""
    return 0.5 * ((index + 0.5) / count - 0.5)
