"""Published numbers as a table: a row per method, a column per source, and notes on the sources."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.compare import Beside
from levelfield.reports.table import Cell, Table, score


def beside_tables(rows: Sequence[Beside]) -> list[Table]:
    """The closest rows of each source, one table per setting and metric, in the order in which they come."""
    groups: dict[tuple[str, str], list[Beside]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.measure.name), []).append(row)
    return [_table(group) for group in groups.values()]


def _table(rows: Sequence[Beside]) -> Table:
    sources = list(dict.fromkeys(row.cell.source for row in rows))
    cells = {(row.method, row.cell.source): _published(row) for row in rows}
    own = {row.method: score(row.own, row.measure) for row in rows}
    return Table.of(
        ["method", "here", *sources],
        [
            [method, here, *(cells.get((method, s), Cell("")) for s in sources)]
            for method, here in own.items()
        ],
        title=f"{rows[0].setting} {rows[0].measure.label}",
        notes=tuple(_note(source, [row for row in rows if row.cell.source == source]) for source in sources),
    )


def _published(row: Beside) -> Cell:
    """The published number with its spread, and what the spread is where it is no 95% interval."""
    cell = row.cell
    kind = "" if cell.spread_kind == "ci95" else f" ({cell.spread_kind})"
    spread = "" if cell.spread is None else f"{cell.spread:.2f}{kind}"
    return Cell(f"{cell.value:.2f}", spread=spread, value=cell.value, half_width=cell.spread)


def _note(source: str, rows: Sequence[Beside]) -> str:
    """What holds for every row of a source once, then what holds for single methods."""
    tables = ", ".join(dict.fromkeys(row.cell.table for row in rows))
    trained = [row for row in rows if row.cell.method != "pretrained"] or rows
    common = [fact for fact in trained[0].differs if all(fact in row.differs for row in trained)]
    parts = [", ".join(common)] if common else []
    for row in rows:
        own = [fact for fact in row.differs if fact not in common]
        if own:
            parts.append(f"{row.method}: {', '.join(own)}")
    return f"{source} ({tables}): " + ("; ".join(parts) if parts else "no known difference in protocol") + "."
