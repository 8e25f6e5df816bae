"""Main table of an experiment: a row per method, a column per setting and metric.

Rows are sorted by the selection metric, best first. Bold marks the best mean of a column; the column
"verdict" says which methods are tied and which are worse. Intervals are those of the verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from levelfield.records import SearchLuck, Store, VerdictRecord, identity_table
from levelfield.reports.table import Emphasis, Table, TableCell, TableColumn, TableRow, plain_cell, score_cell

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
    return Table(
        tuple(replace(whole.columns[number], group="") for number in kept),
        tuple(TableRow(tuple(row.cells[number] for number in kept), row.muted) for row in whole.rows),
        title=whole.title,
        notes=(
            f"{analysis.setting.capitalize()} embeddings, in percent. Methods differ if their intervals (±) "
            f"do not overlap. Bold: best mean.{more}",
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
        f"# {comparison.experiment.name}",
        "",
        f"**{_answer(analysis)}**",
        "",
        *([f"**{LEAKY}**", ""] if comparison.leaky else []),
        f"Dataset {comparison.experiment.dataset.name}; {comparison.split}.",
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


def selections_table(comparison: Comparison) -> Table:
    """Return the selected hyperparameters of each method with their validation score."""
    metric_info = comparison.metric_infos[comparison.experiment.training.metric]
    several = comparison.experiment.search.repeats > 1
    rows = []
    for result, number, repeat in (
        (r, n, repeat) for r in comparison.trained for n, repeat in enumerate(r.repeats)
    ):
        chosen = repeat.selection
        epochs = [epoch for rerun in repeat.scored for epoch in rerun.best_epochs]
        epoch = sum(epochs) / len(epochs) if epochs else None
        cells = (
            TableCell(result.method),
            *([plain_cell(number + 1)] if several else []),
            TableCell(format_hyperparameters(chosen.hyperparameters, ", ") or "none searched"),
            plain_cell(None if chosen.trial is None else chosen.trial + 1),
            TableCell("" if chosen.score is None else metric_info.shown(chosen.score), value=chosen.score),
            TableCell("" if epoch is None else f"{epoch:.1f}", value=epoch),
        )
        rows.append(TableRow(cells))
    heads = ("trial", f"validation {metric_info.label}", "best epoch")
    columns = (
        TableColumn("method", left=True),
        *([TableColumn("search")] if several else []),
        TableColumn("hyperparameters", left=True),
        *map(TableColumn, heads),
    )
    return Table(columns, tuple(rows))


def format_hyperparameters(hyperparameters: Mapping[str, Any], separator: str) -> str:
    """Format hyperparameters as "name = value", floats with four digits.

    Example:
        >>> format_hyperparameters({"margin": 0.123456, "hard": True}, ", ")
        'margin = 0.1235, hard = True'
    """
    return separator.join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in hyperparameters.items()
    )


def identity_settings_table() -> Table:
    """Return the digests that each setting is part of; settings in no digest are provenance."""
    columns = tuple(TableColumn(head, left=True) for head in ("setting", "part of the digest of", "reason"))
    return Table(
        columns, tuple(TableRow(tuple(TableCell(text) for text in line)) for line in identity_table())
    )


def reranking_table(comparison: Comparison) -> Table:
    """Return scores with and without re-ranking of each method; no rows if it is not enabled."""
    found = [
        (result.method, reranking)
        for result in comparison.results
        for rerun in list(result.repeats[0].reruns.values())[:1]
        for reranking in rerun.reranked
    ]
    metrics = list(dict.fromkeys(metric for _, reranking in found for metric in reranking.scores))
    rows = []
    for method, reranking in found:
        plain = reranking.name == "none"
        cells = [TableCell(method if plain else ""), TableCell("no re-ranking" if plain else reranking.name)]
        cells.append(TableCell(format_hyperparameters(reranking.parameters, ", ")))
        for metric in metrics:
            score, gain = reranking.scores[metric], reranking.gains[metric]
            change = f" ({100 * gain.value:+.2f}, {100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
            cells.append(TableCell(f"{100 * score.value:.2f}" + ("" if plain else change), value=score.value))
        rows.append(TableRow(tuple(cells), muted=plain))
    columns = [
        TableColumn(head, left=True) for head in ("method", "re-ranking", "chosen on validation classes")
    ]
    return Table((*columns, *map(TableColumn, metrics)), tuple(rows))


def ledger_table(comparison: Comparison) -> Table:
    """Return all openings of the test set."""
    columns = tuple(
        TableColumn(h, left=True) for h in ("time (UTC)", "method", "event", "selection", "commit")
    )
    lines = (
        (line.time, line.method, line.event, line.selection, line.commit or "-") for line in comparison.ledger
    )
    return Table(columns, tuple(TableRow(tuple(TableCell(text) for text in line)) for line in lines))


FEW_TRIALS = 20  # with fewer, two searches of one method often differ: docs/statistics.md
ENOUGH_SEARCHES = 3  # verdicts then include luck in the search, however large it is


def search_luck_warnings(comparison: Comparison) -> list[str]:
    """Return warnings about luck in the search, which looks like a difference between methods."""
    searched = [result for result in comparison.trained if result.selection.trial is not None]
    if not any(result.selection.hyperparameters for result in searched):
        return []
    found = []
    if comparison.experiment.search.repeats == 1:
        found.append(
            "Each method was searched once: verdicts hold for the selected hyperparameters and do not "
            "include luck in the search. Set search.repeats to 3 or more to include it."
        )
        main = comparison.metric_infos[comparison.experiment.training.metric]
        found.extend(_measured_luck(luck, main) for luck in comparison.luck)
    fewest = min(len(result.trials) for result in searched)
    if fewest < FEW_TRIALS and comparison.experiment.search.repeats < ENOUGH_SEARCHES:
        found.append(
            f"With {fewest} trial{'s' * (fewest > 1)} per search, luck in the search is large; "
            f"use {FEW_TRIALS} or more (`levelfield study search-luck` measures it)."
        )
    return found


def _measured_luck(luck: SearchLuck, of: MetricInfo) -> str:
    return (
        f"Luck in the search was measured on this dataset: {len(luck.means)} searches of {luck.method}, "
        f"{luck.trials} trials each, scored {of.shown(min(luck.means))} to {of.shown(max(luck.means))}; "
        f"{luck.different} of {luck.pairs} pairs of these searches would have been called different."
    )


def result_warnings(comparison: Comparison) -> list[str]:
    """Return warnings about the results, one sentence each."""
    found = list(comparison.notes)
    trials = {result.method: len(result.trials) for result in comparison.trained}
    if len(set(trials.values())) > 1:
        budgets = ", ".join(f"{method} {count}" for method, count in trials.items())
        found.append(f"Unequal search budgets: {budgets} trials.")
    found.extend(search_luck_warnings(comparison))
    methods = [line.method for line in comparison.ledger if line.event == "opened"]
    searches = {result.method: len(result.repeats) for result in comparison.results}
    for method in sorted(set(methods)):
        if methods.count(method) > searches.get(method, 1):
            found.append(
                f"The test set was opened {methods.count(method)} times for {method}: "
                "its selection changed after the first opening."
            )
    for result in comparison.results:
        if result.failed:
            found.append(f"{len(result.failed)} reruns of {result.method} failed: {result.failed[0]}.")
        collapsed = [rerun.collapse for repeat in result.repeats for rerun in repeat.scored if rerun.collapse]
        if collapsed:
            found.append(f"{len(collapsed)} reruns of {result.method} learned nothing: {collapsed[0]}.")
    return found
