"""The main table: a row per method, a column per setting and metric.

Bold marks the methods of a column that no other was found better than; which way is better is the
metric's to say, and a column whose metric does not say has nothing in bold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from levelfield.compare import SETTINGS, Comparison, Measure, Result
from levelfield.records import SearchLuck, scope_table
from levelfield.reports.table import Cell, Column, Emphasis, Row, Table, plain, score

Leaders = Mapping[tuple[str, str], Collection[str]]

LEAKY = "Leaky: tuned with test feedback."


def table_columns(comparison: Comparison) -> list[tuple[str, Measure]]:
    """The setting and measure of each column, concatenated first as the papers print it."""
    measures = [comparison.measures[metric] for metric in comparison.metrics]
    return [(setting, measure) for setting in reversed(SETTINGS) for measure in measures]


def results_table(comparison: Comparison, leaders: Leaders | None = None) -> Table:
    """The main table of an experiment.

    Args:
        comparison: The results.
        leaders: By (setting, metric), the methods that no other was found better than; see
            :func:`levelfield.compare.weigh`. Without it only the best mean is bold.
    """
    wanted = table_columns(comparison)
    best = {(setting, measure.name): _best(comparison, setting, measure) for setting, measure in wanted}
    rows = []
    for result in comparison.results:
        cells = [Cell(result.method)]
        for setting, measure in wanted:
            key = (setting, measure.name)
            alike = result.method in (leaders or {}).get(key, ())
            emphasis: Emphasis = "best" if result.method in best[key] else "alike" if alike else ""
            cells.append(score(result.interval(*key), measure, emphasis))
        epoch = result.mean_best_epoch
        cells.append(Cell("" if epoch is None else f"{epoch:.1f}", value=epoch))
        cells.append(Cell(_note(comparison, result)))
        rows.append(Row(tuple(cells), quiet=result.method == comparison.baseline))
    name = comparison.experiment.name
    return Table(
        columns=(
            Column("method", left=True),
            *(Column(measure.label, group=setting) for setting, measure in wanted),
            Column("max. epoch"),  # the papers' word: where validation was best, mean over folds and reruns
            Column("", left=True, aside=True),
        ),
        rows=tuple(rows),
        title=f"{name}: test scores, mean ± 95% interval",
        caption=f"{comparison.experiment.dataset.name}. {caption(comparison)}"
        + (f" {LEAKY}" if comparison.leaky else ""),
    )


def _best(comparison: Comparison, setting: str, measure: Measure) -> set[str]:
    means = {
        result.method: interval.mean
        for result in comparison.results
        if (interval := result.interval(setting, measure.name)).n
    }
    if not means or measure.higher_is_better is None:
        return set()
    first = max(means.values()) if measure.higher_is_better else min(means.values())
    return {method for method, mean in means.items() if mean == first}


def _note(comparison: Comparison, result: Result) -> str:
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
    return ", ".join(parts)


def caption(comparison: Comparison) -> str:
    """What the numbers of the main table are."""
    bare = [m.label for _, m in table_columns(comparison)[: len(comparison.metrics)] if m.unit != "percent"]
    unit = "in percent" + (f" ({', '.join(bare)}: as they are)" if bare else "")
    searches, reruns = comparison.experiment.search.repeats, comparison.experiment.confirm.reruns
    over = f"{reruns} reruns" if searches == 1 else f"{searches} searches with {reruns} reruns each"
    return f"Mean and 95% t-interval over {over}, {unit}; bold: no method was found better in that column."


def results_lines(comparison: Comparison) -> Table:
    """One line per method, setting and metric for ``results.csv``; no time, host or path in it."""
    heads = (
        "method",
        "setting",
        "metric",
        "mean",
        "half_width_95",
        "reruns",
        "trials",
        "mean_best_epoch",
    )
    rows = []
    for result in comparison.results:
        epoch = result.mean_best_epoch
        for setting, measure in table_columns(comparison):
            interval = result.interval(setting, measure.name)
            if interval.n == 0:
                continue
            half = None if interval.n < 2 else float(interval.half_width)
            reruns = len(result.scores[setting][measure.name])
            numbers = (float(interval.mean), half, reruns, len(result.trials))
            shown_epoch = "" if epoch is None else f"{epoch:.1f}"
            rows.append([result.method, setting, measure.name, *numbers, shown_epoch, comparison.leaky])
    return Table.of([*heads, "leaky"], rows)


def results_markdown(comparison: Comparison, leaders: Leaders | None = None) -> str:
    """The main table in Markdown, with what it is about."""
    lines = [
        f"# {comparison.experiment.name}",
        "",
        *([f"**{LEAKY}**", ""] if comparison.leaky else []),
        f"Dataset {comparison.experiment.dataset.name}; {comparison.split}.",
        caption(comparison),
        "",
        results_table(comparison, leaders).markdown(),
    ]
    return "\n".join(lines) + "\n"


def results_json(comparison: Comparison) -> dict[str, Any]:
    """The main table for machines."""
    return {
        "experiment": comparison.experiment.name,
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
    """What each method's search chose, and how it did in validation."""
    measure = comparison.measures[comparison.experiment.training.metric]
    several = comparison.experiment.search.repeats > 1
    rows = []
    for result, number, repeat in (
        (r, n, repeat) for r in comparison.trained for n, repeat in enumerate(r.repeats)
    ):
        chosen = repeat.selection
        epochs = [epoch for rerun in repeat.scored for epoch in rerun.best_epochs]
        epoch = sum(epochs) / len(epochs) if epochs else None
        cells = (
            Cell(result.method),
            *([plain(number + 1)] if several else []),
            Cell(shown_hyperparameters(chosen.hyperparameters, ", ") or "none to search"),
            plain(None if chosen.trial is None else chosen.trial + 1),
            Cell("" if chosen.score is None else measure.shown(chosen.score), value=chosen.score),
            Cell("" if epoch is None else f"{epoch:.1f}", value=epoch),
        )
        rows.append(Row(cells))
    heads = ("trial", f"validation {measure.label}", "best epoch")
    columns = (
        Column("method", left=True),
        *([Column("search")] if several else []),
        Column("hyperparameters", left=True),
        *map(Column, heads),
    )
    return Table(columns, tuple(rows))


def shown_hyperparameters(hyperparameters: Mapping[str, Any], separator: str) -> str:
    """Hyperparameters as "name = value", floats with four digits.

    Example:
        >>> shown_hyperparameters({"margin": 0.123456, "hard": True}, ", ")
        'margin = 0.1235, hard = True'
    """
    return separator.join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in hyperparameters.items()
    )


def identity_table() -> Table:
    """What a change of each setting makes anew, and why; what makes nothing anew is provenance."""
    columns = tuple(Column(head, left=True) for head in ("setting", "is part of the name of", "why"))
    return Table(columns, tuple(Row(tuple(Cell(text) for text in line)) for line in scope_table()))


def reranking_table(comparison: Comparison) -> Table:
    """What re-ranking does to each method's first model; no rows where it was not asked for."""
    found = [
        (result.method, way)
        for result in comparison.results
        for rerun in list(result.repeats[0].reruns.values())[:1]
        for way in rerun.reranked
    ]
    metrics = list(dict.fromkeys(metric for _, way in found for metric in way.scores))
    rows = []
    for method, way in found:
        plain = way.name == "none"
        cells = [Cell(method if plain else ""), Cell("plain ranking" if plain else way.name)]
        cells.append(Cell(shown_hyperparameters(way.parameters, ", ")))
        for metric in metrics:
            score, gain = way.scores[metric], way.gains[metric]
            change = f" ({100 * gain.value:+.2f}, {100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
            cells.append(Cell(f"{100 * score.value:.2f}" + ("" if plain else change), value=score.value))
        rows.append(Row(tuple(cells), quiet=plain))
    columns = [Column(head, left=True) for head in ("method", "re-ranking", "chosen on validation classes")]
    return Table((*columns, *map(Column, metrics)), tuple(rows))


def ledger_table(comparison: Comparison) -> Table:
    """Every opening of the test set."""
    columns = tuple(Column(h, left=True) for h in ("time (UTC)", "method", "event", "selection", "commit"))
    lines = (
        (line.time, line.method, line.event, line.selection, line.commit or "-") for line in comparison.ledger
    )
    return Table(columns, tuple(Row(tuple(Cell(text) for text in line)) for line in lines))


FEW_TRIALS = 20  # with fewer, one method against itself often comes out different: docs/statistics.md


def search_luck(comparison: Comparison) -> list[str]:
    """What the verdicts cannot say, because luck in the search looks like a difference between methods."""
    searched = [result for result in comparison.trained if result.selection.trial is not None]
    if not any(result.selection.hyperparameters for result in searched):
        return []
    found = []
    if comparison.experiment.search.repeats == 1:
        found.append(
            "Each method was searched once: differences are those of the chosen hyperparameters, and luck in "
            "the search is not counted. Set search.repeats to 3 or more to count it."
        )
        main = comparison.measures[comparison.experiment.training.metric]
        found.extend(_known_luck(luck, main) for luck in comparison.luck)
    fewest = min(len(result.trials) for result in searched)
    if fewest < FEW_TRIALS:
        found.append(
            f"A search of {fewest} trials leaves much to luck; {FEW_TRIALS} or more make it small "
            "(`levelfield study search-luck` measures it)."
        )
    return found


def _known_luck(luck: SearchLuck, of: Measure) -> str:
    return (
        f"How large that luck is was measured on this dataset: {len(luck.means)} searches of {luck.method}, "
        f"{luck.trials} trials each, scored {of.shown(min(luck.means))} to {of.shown(max(luck.means))}; "
        f"{luck.different} of {luck.pairs} pairs of them would have been called different."
    )


def warnings(comparison: Comparison) -> list[str]:
    """What a reader must know before trusting the table."""
    found = list(comparison.notes)
    trials = {result.method: len(result.trials) for result in comparison.trained}
    if len(set(trials.values())) > 1:
        budgets = ", ".join(f"{method} {count}" for method, count in trials.items())
        found.append(f"Unequal search budgets: {budgets} trials.")
    found.extend(search_luck(comparison))
    methods = [line.method for line in comparison.ledger if line.event == "opened"]
    searches = {result.method: len(result.repeats) for result in comparison.results}
    for method in sorted(set(methods)):
        if methods.count(method) > searches.get(method, 1):
            found.append(
                f"The test set was opened {methods.count(method)} times for {method}: "
                "its selection changed after a first look."
            )
    for result in comparison.results:
        if result.failed:
            found.append(f"{len(result.failed)} reruns of {result.method} failed: {result.failed[0]}.")
        collapsed = [rerun.collapse for repeat in result.repeats for rerun in repeat.scored if rerun.collapse]
        if collapsed:
            found.append(f"{len(collapsed)} reruns of {result.method} learned nothing: {collapsed[0]}.")
    return found
