"""Published numbers as a table: a row per method, a column per source, and notes on the sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelfield.reports._beside import Beside
from levelfield.reports._tables import metric_name, percent


@dataclass(frozen=True)
class BesideTable:
    """One setting and metric.

    Attributes:
        title: Setting and metric.
        heads: "method", "here", then the sources.
        rows: One per method; an empty cell where a source lacks it.
        notes: Of each source: its table, and in which respects its protocol was another.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def markdown(self) -> list[str]:
        """The table and its notes, line by line."""
        return [
            "| " + " | ".join(self.heads) + " |",
            "|---|" + "---:|" * (len(self.heads) - 1),
            *("| " + " | ".join(row) + " |" for row in self.rows),
            "",
            *(f"- {note}" for note in self.notes),
        ]


def beside_tables(rows: Sequence[Beside]) -> list[BesideTable]:
    """The closest rows of each source, one table per setting and metric, in the order in which they come."""
    groups: dict[tuple[str, str], list[Beside]] = {}
    for row in rows:
        groups.setdefault((row.setting, row.metric), []).append(row)
    return [_table(setting, metric, group) for (setting, metric), group in groups.items()]


def _table(setting: str, metric: str, rows: Sequence[Beside]) -> BesideTable:
    sources = list(dict.fromkeys(row.cell.source for row in rows))
    cells = {(row.method, row.cell.source): row.published for row in rows}
    own = {row.method: percent(row.own) for row in rows}
    return BesideTable(
        title=f"{setting} {metric_name(metric)}",
        heads=("method", "here", *sources),
        rows=tuple(
            (method, here, *(cells.get((method, source), "") for source in sources))
            for method, here in own.items()
        ),
        notes=tuple(_note(source, [row for row in rows if row.cell.source == source]) for source in sources),
    )


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
