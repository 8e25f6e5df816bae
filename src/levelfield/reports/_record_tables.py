"""Tables of what the records hold besides scores: selections, re-rankings, openings of the test set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield.analysis import Comparison
from levelfield.records import identity_table
from levelfield.reports.table import Table, TableCell, TableColumn, TableRow, plain_cell


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
