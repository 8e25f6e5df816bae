"""Published results: the cells of the tables of papers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from levelfield.analysis.published._tables import check_known, read_table, sources


@dataclass(frozen=True)
class PublishedCell:
    """One cell of a published table.

    Attributes:
        source: Name of the publication, a key of ``sources()``.
        table: Number or title of the table, as printed.
        row: Label of the row, as printed.
        column: Label of the column, as printed.
        method: Name of the method in levelfield; empty if the cell is not about a method.
        variant: Other properties of the row: miner, sampler, beta, p_switch, year of the quoted paper.
        dataset: "cub200", "cars196", "sop", or empty.
        trunk: "bninception", "googlenet", "resnet50", or empty.
        embedding_size: Embedding size; None if it is not printed.
        setting: "concatenated", "separated", "default", "cross_validation", "fixed_validation", "claimed"
            (quoted from another paper), or empty.
        metric: Name of the metric in levelfield.
        value: The number, in ``unit``; None if no readable number is printed.
        spread: The number after "±"; None if there is none.
        spread_kind: "ci95" or "std", or empty.
        unit: "%", "rank", "epoch", "count", "year", "rate", "factor" or "text".
        printed: Text of the cell, as printed.
        bold: True if it is printed in bold.
        note: Misprint or oddity of the cell; empty for most cells.
    """

    source: str
    table: str
    row: str
    column: str
    method: str
    variant: Mapping[str, str]
    dataset: str
    trunk: str
    embedding_size: int | None
    setting: str
    metric: str
    value: float | None
    spread: float | None
    spread_kind: str
    unit: str
    printed: str
    bold: bool
    note: str

    @property
    def fraction(self) -> float | None:
        """Percentage as a number from 0 to 1, the scale of levelfield's metrics; None for other units."""
        return self.value / 100 if self.value is not None and self.unit == "%" else None

    @property
    def cite(self) -> str:
        """Source, table and row as one line."""
        return f"{self.source}, {self.table}, {self.row}"


def results(
    *,
    source: str | None = None,
    table: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    trunk: str | None = None,
    embedding_size: int | None = None,
    setting: str | None = None,
    metric: str | None = None,
    variant: Mapping[str, str] | None = None,
) -> list[PublishedCell]:
    """Return the published cells that match all given filters, in the order of the sources.

    Args:
        source: Name of the publication.
        table: Number or title of the table.
        method: Name of a method in levelfield.
        dataset: Name of a dataset in levelfield.
        trunk: Name of a trunk in levelfield.
        embedding_size: Embedding size.
        setting: Setting of the number, such as "separated".
        metric: Name of a metric in levelfield.
        variant: Properties that the row must have, such as ``{"sampler": "spc_2"}``.

    Raises:
        UsageError: A filter has a value that no source has.

    Example:
        >>> (cell,) = results(source="reality-check", method="triplet", dataset="cub200",
        ...                   setting="separated", metric="map_at_r")
        >>> cell.value, cell.spread, cell.cite
        (18.8, 0.27, 'reality-check, Table 3, Triplet')
    """
    found: Iterable[PublishedCell] = all_cells()
    filters = {
        "source": source,
        "table": table,
        "method": method,
        "dataset": dataset,
        "trunk": trunk,
        "setting": setting,
        "metric": metric,
    }
    for field, wanted in filters.items():
        if wanted is not None:
            check_known(field, wanted, {getattr(cell, field) for cell in all_cells()} - {""})
            found = [cell for cell in found if getattr(cell, field) == wanted]
    if embedding_size is not None:
        found = [cell for cell in found if cell.embedding_size == embedding_size]
    if variant:
        found = [cell for cell in found if variant.items() <= cell.variant.items()]
    return list(found)


@cache
def all_cells() -> tuple[PublishedCell, ...]:
    """Return all published cells, in the order of the sources."""
    names = [source.results for source in sources().values() if source.results is not None]
    return tuple(parse_cell(row) for name in names for row in read_table(name))


def parse_cell(row: Mapping[str, str]) -> PublishedCell:
    """Convert one line of a CSV file to a cell."""
    return PublishedCell(
        source=row["source"],
        table=row["table"],
        row=row["row"],
        column=row["column"],
        method=row["method"],
        variant=dict(mark.split("=", 1) for mark in row["variant"].split()),
        dataset=row["dataset"],
        trunk=row["trunk"],
        embedding_size=int(row["embedding_size"]) if row["embedding_size"] else None,
        setting=row["setting"],
        metric=row["metric"],
        value=float(row["value"]) if row["value"] else None,
        spread=float(row["spread"]) if row["spread"] else None,
        spread_kind=row["spread_kind"],
        unit=row["unit"],
        printed=row["printed"],
        bold=row["bold"] == "yes",
        note=row["note"],
    )
