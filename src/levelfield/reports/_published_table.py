"""Tables of published numbers: a row per method, a column per source, and notes on the sources."""

from __future__ import annotations

from collections.abc import Sequence

from levelfield.analysis import PublishedComparison
from levelfield.reports.table import Table, TableCell, score_cell


def build_published_tables(rows: Sequence[PublishedComparison]) -> list[Table]:
    """Return one table per setting and metric, in the order of ``rows``."""
    groups: dict[tuple[str, str], list[PublishedComparison]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.metric_info.name), []).append(row)
    return [_table(group) for group in groups.values()]


def _table(rows: Sequence[PublishedComparison]) -> Table:
    sources = list(dict.fromkeys(row.cell.source for row in rows))
    cells = {(row.method, row.cell.source): _published_cell(row) for row in rows}
    own = {row.method: score_cell(row.own, row.metric_info) for row in rows}
    return Table.from_rows(
        ["method", "here", *sources],
        [
            [method, here, *(cells.get((method, s), TableCell("")) for s in sources)]
            for method, here in own.items()
        ],
        title=f"{rows[0].setting} {rows[0].metric_info.label}",
        notes=tuple(_note(source, [row for row in rows if row.cell.source == source]) for source in sources),
    )


def _published_cell(row: PublishedComparison) -> TableCell:
    """Return the published number with its spread; other spreads than 95% intervals are marked."""
    cell = row.cell
    kind = "" if cell.spread_kind == "ci95" else f" ({cell.spread_kind})"
    spread = "" if cell.spread is None else f"{cell.spread:.2f}{kind}"
    return TableCell(f"{cell.value:.2f}", spread=spread, value=cell.value, half_width=cell.spread)


def _note(source: str, rows: Sequence[PublishedComparison]) -> str:
    """Return the differences of a source that all rows share, then those of single methods."""
    tables = ", ".join(dict.fromkeys(row.cell.table for row in rows))
    trained = [row for row in rows if row.cell.method != "pretrained"] or rows
    common = [fact for fact in trained[0].differs if all(fact in row.differs for row in trained)]
    parts = [", ".join(common)] if common else []
    for row in rows:
        own = [fact for fact in row.differs if fact not in common]
        if own:
            parts.append(f"{row.method}: {', '.join(own)}")
    return f"{source} ({tables}): " + ("; ".join(parts) if parts else "no known difference in protocol") + "."
