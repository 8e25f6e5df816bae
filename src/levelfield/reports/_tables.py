"""Result tables as CSV, Markdown, and rows for the page and the terminal. Percent, two decimals.

Bold marks the best mean of a column and what is not distinguishable from it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.protocol import SETTINGS, Comparison, Result
from levelfield.stats import Interval

Leaders = Mapping[tuple[str, str], Collection[str]]

EPOCH_HEAD = "max. epoch"  # the papers' "Max. Epoch": where validation was best, mean over folds and reruns
METRIC_NAMES = {"precision_at_1": "P@1", "r_precision": "RP", "map_at_r": "MAP@R"}


def metric_name(metric: str) -> str:
    """A metric as the papers print it.

    Example:
        >>> metric_name("map_at_r"), metric_name("recall_at_8")
        ('MAP@R', 'R@8')
    """
    if metric in METRIC_NAMES:
        return METRIC_NAMES[metric]
    for prefix, short in (
        ("recall_at_", "R@"),
        ("precision_at_", "P@"),
        ("map_at_", "mAP@"),
        ("ndcg_at_", "nDCG@"),
    ):
        if metric.startswith(prefix):
            return short + metric.removeprefix(prefix)
    return metric.upper()


def percent(interval: Interval) -> str:
    """Mean and half-width of an interval in percent; just the mean of a single rerun."""
    if interval.n == 0:
        return "-"
    if interval.n < 2:
        return f"{100 * interval.mean:.2f}"
    return f"{100 * interval.mean:.2f} ± {100 * interval.half_width:.2f}"


@dataclass(frozen=True)
class TableRow:
    """One method's line: what is printed, and where it is the best mean or not distinguishable from it.

    Without tests ``alike`` marks the best mean alone.
    """

    method: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]
    alike: tuple[bool, ...]
    epoch: str
    note: str


def columns(comparison: Comparison) -> list[tuple[str, str]]:
    """The (setting, metric) of each column, concatenated first as the papers print it."""
    return [(setting, metric) for setting in reversed(SETTINGS) for metric in comparison.metrics]


def table_rows(comparison: Comparison, leaders: Leaders | None = None) -> list[TableRow]:
    """The rows of the main table.

    Args:
        comparison: The results.
        leaders: By (setting, metric), the methods not distinguishable from the best; see ``weigh``.
    """
    tested = leaders or {}
    wanted = columns(comparison)
    means = {
        column: max(
            (interval.mean for r in comparison.results if (interval := _interval(r, *column)).n), default=None
        )
        for column in wanted
    }
    rows = []
    for result in comparison.results:
        intervals = [_interval(result, *column) for column in wanted]
        best = [i.n > 0 and i.mean == means[column] for i, column in zip(intervals, wanted, strict=True)]
        rows.append(
            TableRow(
                method=result.method,
                cells=tuple(percent(interval) for interval in intervals),
                best=tuple(best),
                alike=tuple(
                    first or result.method in tested.get(column, ())
                    for first, column in zip(best, wanted, strict=True)
                ),
                epoch=mean_epoch(result),
                note=_note(comparison, result),
            )
        )
    return rows


def _interval(result: Result, setting: str, metric: str) -> Interval:
    values = result.scores[setting][metric]
    return result.interval(setting, metric) if values else Interval(float("nan"), float("nan"), 0)


def _note(comparison: Comparison, result: Result) -> str:
    if result.method == comparison.baseline:
        return "before training"
    parts = [f"{len(result.trials)} trials"]
    if result.diverged:
        parts.append(f"{result.diverged} diverged")
    if result.pruned:
        parts.append(f"{result.pruned} pruned")
    if result.failed:
        parts.append(f"{len(result.failed)} reruns failed")
    return ", ".join(parts)


def results_csv(comparison: Comparison) -> str:
    """One line per method, setting and metric; full precision; no time, host or path in it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["method", "setting", "metric", "mean", "half_width_95", "reruns", "trials", "mean_best_epoch"]
    )
    for result in comparison.results:
        for setting, metric in columns(comparison):
            interval = _interval(result, setting, metric)
            if interval.n == 0:
                continue
            half = "" if interval.n < 2 else repr(float(interval.half_width))
            writer.writerow(
                [
                    result.method,
                    setting,
                    metric,
                    repr(float(interval.mean)),
                    half,
                    interval.n,
                    len(result.trials),
                    mean_epoch(result),
                ]
            )
    return out.getvalue()


def mean_epoch(result: Result) -> str:
    """The mean of the best epochs ("Max. Epoch" in the papers); empty for the baseline."""
    return f"{sum(result.best_epochs) / len(result.best_epochs):.1f}" if result.best_epochs else ""


def results_markdown(comparison: Comparison, leaders: Leaders | None = None) -> str:
    """The main table in Markdown."""
    heads = [f"{setting} {metric_name(metric)}" for setting, metric in columns(comparison)]
    lines = [
        f"# {comparison.experiment['name']}",
        "",
        f"Dataset {comparison.experiment['dataset']['name']}; {comparison.split}.",
        caption(comparison),
        "",
        "| method | " + " | ".join(heads) + f" | {EPOCH_HEAD} | |",
        "|---|" + "---:|" * (len(heads) + 1) + "---|",
    ]
    for row in table_rows(comparison, leaders):
        cells = [f"**{cell}**" if bold else cell for cell, bold in zip(row.cells, row.alike, strict=True)]
        lines.append(f"| {row.method} | " + " | ".join(cells) + f" | {row.epoch} | {row.note} |")
    if comparison.leaky:
        lines[2:2] = ["**Leaky: tuned with test feedback.**", ""]
    return "\n".join(lines) + "\n"


def caption(comparison: Comparison) -> str:
    """What the numbers of the main table are."""
    return (
        f"Mean and 95% t-interval over {comparison.experiment['confirm']['reruns']} reruns, in percent; "
        "bold: the best mean of the column and those not distinguishable from it."
    )


def results_json(comparison: Comparison) -> dict[str, Any]:
    """The main table for machines."""
    return {
        "experiment": comparison.experiment["name"],
        "leaky": comparison.leaky,
        "results": [
            {
                "method": result.method,
                "hyperparameters": result.selection.get("hyperparameters", {}),
                "trials": len(result.trials),
                "scores": result.scores,
            }
            for result in comparison.results
        ],
    }
