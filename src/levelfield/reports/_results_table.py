"""Main table of an experiment: a row per method, a column per setting and metric.

Rows are sorted by the selection metric, best first. Bold marks the best mean of a column; the column
"verdict" says which methods are tied and which are worse. Intervals are those of the verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from levelfield.analysis import (
    SETTINGS,
    Analysis,
    Comparison,
    MethodResult,
    MetricInfo,
    conclude_experiment,
    learning_note,
)
from levelfield.records import Store, VerdictRecord
from levelfield.reports._markdown import escape_markdown
from levelfield.reports._result_notes import interval_exceptions
from levelfield.reports.table import Emphasis, Table, TableCell, TableColumn, TableRow, score_cell

TERMINAL_METRICS = 3
LEAKY = "Leaky: tuned with test feedback."


def table_columns(comparison: Comparison) -> list[tuple[str, MetricInfo]]:
    """Return the setting and metric of each column, concatenated first as in the papers."""
    metric_infos = [comparison.metric_infos[metric] for metric in comparison.metrics]
    return [(setting, metric_info) for setting in reversed(SETTINGS) for metric_info in metric_infos]


def results_table(analysis: Analysis, *, settings: Sequence[str] = (), file_order: bool = False) -> Table:
    """Return the main table of an experiment, best method first.

    Args:
        analysis: Analysis of the experiment. Rows are sorted by its setting and metric.
        settings: Settings to show. Defaults to all.
        file_order: Keep the order of the experiment file.
    """
    comparison, leaders = analysis.comparison, analysis.leaders
    wanted = [column for column in table_columns(comparison) if column[0] in (settings or SETTINGS)]
    results = {result.method: result for result in comparison.results}
    names = list(results)
    if not file_order:
        names = [*analysis.means, *(name for name in names if name not in analysis.means)]
    best = {
        (setting, metric_info.name): _best(analysis, names, setting, metric_info)
        for setting, metric_info in wanted
    }
    rows = []
    for name in names:
        result, baseline = results[name], name == comparison.baseline
        cells = [TableCell(f"{name} (baseline)" if baseline else name, value=name)]
        for setting, metric_info in wanted:
            key = (setting, metric_info.name)
            emphasis: Emphasis = "best" if name in best[key] else "alike" if name in leaders[key] else ""
            cells.append(score_cell(analysis.interval(name, *key), metric_info, emphasis))
        epoch = result.mean_best_epoch
        cells.append(TableCell(_standing(analysis, name)))
        cells.append(TableCell("" if epoch is None else f"{epoch:.1f}", value=epoch))
        cells.append(TableCell(_note(analysis, result)))
        rows.append(TableRow(tuple(cells), muted=baseline))
    return Table(
        columns=(
            TableColumn("method", left=True),
            *(TableColumn(metric_info.label, group=setting) for setting, metric_info in wanted),
            TableColumn("verdict", left=True),
            # name in the papers: best epoch in validation, mean over folds and reruns
            TableColumn("max. epoch"),
            TableColumn("", left=True, aside=True),
        ),
        rows=tuple(rows),
        title=f"{comparison.experiment.name}: test scores, best {analysis.metric_info.label} first",
        caption=f"{comparison.experiment.dataset.name}. {caption(analysis)}"
        + (f" {LEAKY}" if comparison.leaky else ""),
    )


def terminal_table(analysis: Analysis, *, file_order: bool = False) -> Table:
    """Return the main table for a terminal of 80 columns: one setting, the first metrics, and a legend."""
    whole = results_table(analysis, settings=(analysis.setting,), file_order=file_order)
    metrics = [metric_info for setting, metric_info in table_columns(analysis.comparison)]
    labels = list(dict.fromkeys([analysis.metric_info.label, *(info.label for info in metrics)]))[
        :TERMINAL_METRICS
    ]
    kept = [
        number
        for number, column in enumerate(whole.columns)
        if column.head in ("method", "verdict") or (column.group and column.head in labels)
    ]
    left_out = len(analysis.comparison.metrics) - len(labels)
    more = f" {left_out} more metrics are in the report." if left_out > 0 else ""
    exceptions = interval_exceptions(analysis)
    return Table(
        tuple(replace(whole.columns[number], group="") for number in kept),
        tuple(TableRow(tuple(row.cells[number] for number in kept), row.muted) for row in whole.rows),
        title=whole.title,
        notes=(
            f"{analysis.setting.capitalize()} embeddings, in percent. Methods differ if their intervals (±) "
            f"do not overlap. {exceptions}{' ' if exceptions else ''}Bold: best mean.{more}",
        ),
    )


def _standing(analysis: Analysis, method: str) -> str:
    """Return the verdict on a method in one or two words: best, tied, worse, or nothing for the baseline."""
    directed = analysis.metric_info.higher_is_better is not None
    if method not in analysis.means or method == analysis.comparison.baseline or not directed:
        return ""
    trained = [name for name in analysis.means if name != analysis.comparison.baseline]
    beaten = {
        pair.second for pair in analysis.pairs if pair.verdict == "better" and pair.first in trained
    } | {pair.first for pair in analysis.pairs if pair.verdict == "worse" and pair.second in trained}
    leaders = [name for name in trained if name not in beaten]
    if method in beaten:
        return "worse"
    return "best" if leaders == [method] else "tied"


def _best(analysis: Analysis, names: Sequence[str], setting: str, metric_info: MetricInfo) -> set[str]:
    means = {
        name: interval.mean
        for name in names
        if math.isfinite((interval := analysis.interval(name, setting, metric_info.name)).mean)
    }
    if not means or metric_info.higher_is_better is None:
        return set()
    first = max(means.values()) if metric_info.higher_is_better else min(means.values())
    return {method for method, mean in means.items() if mean == first}


def _note(analysis: Analysis, result: MethodResult) -> str:
    comparison = analysis.comparison
    if result.method == comparison.baseline:
        starts = comparison.baseline == "pretrained" and comparison.experiment.head.init == "pca"
        return "before training: epoch 0 of every method" if starts else "before training"
    failed = [repeat.selection.failed for repeat in result.repeats if repeat.selection.failed]
    if len(failed) == len(result.repeats):
        return failed[0]
    searches = f"{len(result.repeats)} x " if len(result.repeats) > 1 else ""
    parts = [f"{searches}{len(result.trials)} trials"]
    if result.diverged:
        parts.append(f"{result.diverged} diverged")
    if result.collapsed:
        parts.append(f"{result.collapsed} collapsed")
    if result.pruned:
        parts.append(f"{result.pruned} pruned")
    if result.failed:
        parts.append(f"{len(result.failed)} reruns failed")
    if learning := learning_note(analysis, result):
        parts.append(learning)
    return ", ".join(parts)


def caption(analysis: Analysis) -> str:
    """Return the caption of the main table."""
    comparison = analysis.comparison
    bare = [m.label for _, m in table_columns(comparison)[: len(comparison.metrics)] if m.unit != "percent"]
    unit = "in percent" + (f" ({', '.join(bare)}: as they are)" if bare else "")
    searches, reruns = comparison.experiment.search.repeats, comparison.experiment.confirm.reruns
    over = f"{reruns} reruns" if searches == 1 else f"{searches} searches with {reruns} reruns each"
    chance = "test classes and seeds" if searches == 1 else "test classes, searches and seeds"
    return (
        f"Mean over {over}, {unit}. ±: two methods differ if their intervals do not overlap (95% for all "
        f"pairs, {chance} count as chance). Bold: the best mean of the column. Verdict on {analysis.setting} "
        f"{analysis.metric_info.label}: worse, if another method was found better."
    )


def results_lines(analysis: Analysis) -> Table:
    """Return the table of ``results.csv``: one line per method, setting and metric.

    ``half_width_95`` is for comparing methods, as in the main table; ``alone_half_width_95`` is that of one
    method on new classes and seeds; ``seed_half_width_95`` covers reruns or searches only.
    """
    comparison = analysis.comparison
    heads = (
        "method",
        "setting",
        "metric",
        "mean",
        "half_width_95",
        "alone_half_width_95",
        "seed_half_width_95",
        "reruns",
        "trials",
        "mean_best_epoch",
    )
    rows = []
    for result in comparison.results:
        epoch = result.mean_best_epoch
        for setting, metric_info in table_columns(comparison):
            interval = analysis.interval(result.method, setting, metric_info.name)
            if interval.n == 0:
                continue
            half = _finite(interval.half_width)
            alone = analysis.interval_alone(result.method, setting, metric_info.name)
            alone_half = _finite(alone.half_width)
            seeds = result.seed_interval(setting, metric_info.name)
            seed_half = _finite(seeds.half_width)
            reruns = len(result.scores[setting][metric_info.name])
            numbers = (float(interval.mean), half, alone_half, seed_half, reruns, len(result.trials))
            shown_epoch = "" if epoch is None else f"{epoch:.1f}"
            rows.append([result.method, setting, metric_info.name, *numbers, shown_epoch, comparison.leaky])
    return Table.from_rows([*heads, "leaky"], rows)


def results_markdown(analysis: Analysis) -> str:
    """Return the verdict and the main table in Markdown, with title, dataset and caption."""
    comparison = analysis.comparison
    lines = [
        f"# {escape_markdown(comparison.experiment.name)}",
        "",
        f"**{escape_markdown(_answer(analysis))}**",
        "",
        *([f"**{LEAKY}**", ""] if comparison.leaky else []),
        escape_markdown(f"Dataset {comparison.experiment.dataset.name}; {comparison.split}."),
        caption(analysis),
        "",
        results_table(analysis).markdown(),
    ]
    return "\n".join(lines) + "\n"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def results_latex(analysis: Analysis) -> str:
    """Return the main table as LaTeX, with the verdict as a comment above it."""
    return f"% {_answer(analysis)}\n{results_table(analysis).latex()}"


def _answer(analysis: Analysis) -> str:
    """Return the conclusion without its notes: training times differ from machine to machine."""
    return " ".join(conclude_experiment(analysis).answer)


def verdict_json(analysis: Analysis) -> str:
    """Return the conclusion without its notes, for ``verdict.json``."""
    found = conclude_experiment(analysis)
    record = VerdictRecord(
        use=found.use,
        tied=found.tied,
        worse=found.worse,
        beats_baseline=found.beats_baseline,
        answer=found.answer,
        ledger=Store(analysis.root).ledger_digest(),
    )
    return record.model_dump_json(indent=2) + "\n"


def results_json(analysis: Analysis) -> dict[str, Any]:
    """Return the verdict and the main table for JSON."""
    comparison, conclusion = analysis.comparison, conclude_experiment(analysis)
    return {
        "experiment": comparison.experiment.name,
        "verdict": conclusion.text,
        "use": conclusion.use,
        "leaky": comparison.leaky,
        "results": [
            {
                "method": result.method,
                "hyperparameters": result.selection.hyperparameters,
                "trials": len(result.trials),
                "scores": result.scores,
            }
            for result in comparison.results
        ],
    }
