"""Main table of one arena."""

from __future__ import annotations

from typing import Any

from arenas import Arena
from levelfield.reports import Table
from levelfield.reports.table import TableCell, score_cell

COLUMNS = (
    ("MAP@R, four models", "concatenated", "map_at_r"),
    ("MAP@R, one", "separated", "map_at_r"),
    ("P@1, four models", "concatenated", "precision_at_1"),
    ("P@1, one", "separated", "precision_at_1"),
)


def main_table(arena: Arena) -> str:
    """Return the main table: one row per method, best first; bold if no method was found better."""
    infos = arena.analysis.comparison.metric_infos
    rows: list[list[Any]] = []
    for method in [*arena.methods, arena.baseline]:
        cells = [
            score_cell(arena.analysis.interval(method, setting, metric), infos[metric])
            for _, setting, metric in COLUMNS
        ]
        name = f"**{method}**" if method in arena.leaders else method
        rows.append([name, *cells, TableCell(_behind(arena, method))])
    heads = ["method", *(head for head, _, _ in COLUMNS), "behind the best"]
    return Table.from_rows(heads, rows).markdown()


def _behind(arena: Arena, method: str) -> str:
    if method == arena.methods[0]:
        return ""
    pair = arena.behind_best(method)
    return f"{100 * pair.difference:.2f} ({100 * pair.low:.2f} to {100 * pair.high:.2f})"
