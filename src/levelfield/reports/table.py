"""Tables with output as HTML, Markdown, LaTeX, CSV or terminal text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from levelfield.analysis import MetricInfo
from levelfield.reports._markdown import escape_markdown
from levelfield.stats import Interval

if TYPE_CHECKING:
    from rich.table import Table as RichTable

TableValue = str | int | float | bool | None
TableEntry: TypeAlias = "str | int | float | bool | TableCell | None"
Emphasis = Literal["", "alike", "best"]

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{char: "\\" + char for char in "&%$#_{}"},
}


@dataclass(frozen=True)
class TableColumn:
    """Column of a table.

    Attributes:
        head: Column head.
        group: Common head above adjacent columns.
        left: True aligns left, for text; False aligns right, for numbers.
        aside: True for a note column, which only HTML, Markdown and CSV show.
    """

    head: str
    group: str = ""
    left: bool = False
    aside: bool = False

    @property
    def full_head(self) -> str:
        """Group and head in one line."""
        return f"{self.group} {self.head}".strip()


@dataclass(frozen=True)
class TableCell:
    """Cell of a table.

    Attributes:
        text: Displayed text.
        spread: Text after "±", if any.
        value: Value in full precision, for CSV. Defaults to the text.
        half_width: Half width of the interval in full precision, for CSV.
        emphasis: "best" for the best value of a column, which is bold; "alike" for values that are not found
            worse.
    """

    text: str
    spread: str = ""
    value: TableValue = None
    half_width: float | None = None
    emphasis: Emphasis = ""

    @property
    def full_text(self) -> str:
        """Text with spread."""
        return f"{self.text} ± {self.spread}" if self.spread else self.text


@dataclass(frozen=True)
class TableRow:
    """Row of a table; ``muted`` rows, such as the baseline, have their own style in HTML."""

    cells: tuple[TableCell, ...]
    muted: bool = False


@dataclass(frozen=True)
class Table:
    """Table with title, caption and notes.

    Attributes:
        columns: Columns from left to right.
        rows: Rows with one cell per column.
        title: Title in the terminal.
        caption: Caption of the LaTeX float; without a caption LaTeX output is a bare ``tabular``.
        notes: Notes below the table, one line each.

    Example:
        >>> table = Table.from_rows(["method", "MAP@R"], [["triplet", 0.5]])
        >>> print(table.markdown())
        | method | MAP@R |
        |---|---:|
        | triplet | 0.5 |
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    title: str = ""
    caption: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def from_rows(cls, heads: Sequence[str], rows: Iterable[Sequence[TableEntry]], **options: Any) -> Table:
        """Return a table from plain values or cells; the first column is aligned left."""
        columns = tuple(TableColumn(head, left=number == 0) for number, head in enumerate(heads))
        lines = tuple(
            TableRow(tuple(value if isinstance(value, TableCell) else plain_cell(value) for value in row))
            for row in rows
        )
        return cls(columns, lines, **options)

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, TableValue]], heads: Sequence[str] = ()) -> Table:
        """Return a table from dictionaries by column head; ``heads`` are the columns of an empty table."""
        heads = list(records[0]) if records else heads
        return cls.from_rows(heads, [[record[head] for head in heads] for record in records])

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Group heads with the number of columns they span; empty if no column has a group."""
        found = [(name, len(list(columns))) for name, columns in groupby(c.group for c in self.columns)]
        return found if any(name for name, _ in found) else []

    def markdown(self) -> str:
        """Return the table as Markdown, with notes."""
        lines = [
            _markdown_line(column.full_head for column in self.columns),
            "|" + "".join("---|" if column.left else "---:|" for column in self.columns),
        ]
        for row in self.rows:
            lines.append(
                _markdown_line(
                    f"**{cell.full_text}**" if cell.emphasis == "best" and cell.full_text else cell.full_text
                    for cell in row.cells
                )
            )
        return "\n".join(
            [*lines, *([""] if self.notes else []), *(f"- {escape_markdown(n)}" for n in self.notes)]
        )

    def html(self, *, sortable: bool = False) -> str:
        """Return the table as HTML, with notes. CSS classes are "best", "alike", "note" and "baseline".

        With ``sortable`` a click on a column head sorts the table (needs ``page.js``).
        """
        lines = ['<table class="sortable">' if sortable else "<table>", "<thead>"]
        if self.groups:
            spans = (
                f'<{(tag := "th" if name else "td")} colspan="{count}">{escape_html(name)}</{tag}>'
                for name, count in self.groups
            )
            lines.append(f'<tr class="groups">{"".join(spans)}</tr>')
        names = [
            "note aside" if column.aside else "note" if column.left and number else ""
            for number, column in enumerate(self.columns)
        ]
        pairs = zip(self.columns, names, strict=True)
        heads = (_tag("th", column.head or "note", name, scope="col") for column, name in pairs)
        lines += [f"<tr>{''.join(heads)}</tr>", "</thead>", "<tbody>"]
        for row in self.rows:
            cells = (
                _tag("td", cell.full_text, cell.emphasis or name)
                for cell, name in zip(row.cells, names, strict=True)
            )
            start = '<tr class="baseline">' if row.muted else "<tr>"
            lines.append(f"{start}{''.join(cells)}</tr>")
        lines += ["</tbody>", "</table>"]
        if self.notes:
            notes = "".join(f'<li class="none">{escape_html(note)}</li>' for note in self.notes)
            lines.append(f'<ul class="findings">{notes}</ul>')
        return "\n".join(lines)

    def latex(self) -> str:
        """Return the table as LaTeX for ``\\input``, without asides; it needs the package booktabs."""
        kept = [number for number, column in enumerate(self.columns) if not column.aside]
        table = Table(tuple(self.columns[number] for number in kept), ())
        lines = [
            rf"\begin{{tabular}}{{{''.join('l' if c.left else 'r' for c in table.columns)}}}",
            r"\toprule",
        ]
        if table.groups:
            spans = (
                rf"\multicolumn{{{n}}}{{c}}{{{escape_latex(name)}}}" if name else ""
                for name, n in table.groups
            )
            lines += [" & ".join(spans) + r" \\", *_latex_rules(table.groups)]
        lines += [" & ".join(escape_latex(column.head) for column in table.columns) + r" \\", r"\midrule"]
        for row in self.rows:
            lines.append(" & ".join(_latex_cell(row.cells[n], self.columns[n]) for n in kept) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        if self.caption:
            above = [r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(self.caption)}}}"]
            lines = [*above, *lines, r"\end{table}"]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Return the table as CSV in full precision; a column with spreads is followed by its half widths."""
        spread = [
            any(row.cells[n].half_width is not None for row in self.rows) for n in range(len(self.columns))
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        heads: list[str] = []
        for column, has_spread in zip(self.columns, spread, strict=True):
            heads += (
                [column.full_head, f"{column.full_head} half_width_95"] if has_spread else [column.full_head]
            )
        writer.writerow(heads)
        for row in self.rows:
            line: list[str] = []
            for cell, has_spread in zip(row.cells, spread, strict=True):
                line.append(cell.text if cell.value is None else _format_value(cell.value))
                line += [_format_value(cell.half_width)] if has_spread else []
            writer.writerow(line)
        return out.getvalue()

    def rich(self) -> RichTable:
        """Return the table for the terminal, without title and asides."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        kept = [number for number, column in enumerate(self.columns) if not column.aside]
        for column in (self.columns[number] for number in kept):
            head = f"{column.group}\n{column.head}" if column.group else column.head
            shown.add_column(
                Text(head),
                justify="left" if column.left else "right",
                overflow="fold",
                no_wrap=not shown.columns,
            )
        for row in self.rows:
            cells = (row.cells[number] for number in kept)
            shown.add_row(
                *(Text(cell.full_text, style="bold" if cell.emphasis == "best" else "") for cell in cells)
            )
        return shown


def plain_cell(value: TableValue) -> TableCell:
    """Return a cell with a value; floats have four digits, None is empty."""
    if value is None:
        return TableCell("")
    return TableCell(f"{value:.4g}" if isinstance(value, float) else _format_value(value), value=value)


def score_cell(interval: Interval, metric_info: MetricInfo, emphasis: Emphasis = "") -> TableCell:
    """Return a cell with mean and 95% interval; only the mean for a single rerun, "-" for none.

    A score that is infinite in some rerun has no interval.
    """
    if interval.n == 0:
        return TableCell("-")
    if not math.isfinite(interval.half_width):
        return TableCell(metric_info.shown(interval.mean), value=float(interval.mean), emphasis=emphasis)
    return TableCell(
        text=metric_info.shown(interval.mean),
        spread=metric_info.shown(interval.half_width),
        value=float(interval.mean),
        half_width=float(interval.half_width),
        emphasis=emphasis,
    )


def escape_latex(text: str) -> str:
    r"""Escape the special characters of LaTeX.

    Example:
        >>> print(escape_latex("proxy_nca 50%"))
        proxy\_nca 50\%
    """
    return "".join(LATEX_SPECIAL.get(char, char) for char in text)


def _tag(tag: str, text: str, name: str, *, scope: str = "") -> str:
    mark = (f' scope="{scope}"' if scope else "") + (f' class="{name}"' if name else "")
    return f"<{tag}{mark}>{escape_html(text)}</{tag}>"


def _markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escape_markdown(cell).replace("|", r"\|") for cell in cells) + " |"


def _latex_rules(groups: Sequence[tuple[str, int]]) -> list[str]:
    rules, start = [], 1
    for name, count in groups:
        if name:
            rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    return rules


def _latex_cell(cell: TableCell, column: TableColumn) -> str:
    if not column.left and cell.text in ("", "-"):
        return "--"
    text = escape_latex(cell.text)
    shown = rf"\textbf{{{text}}}" if cell.emphasis == "best" else text
    return rf"{shown} {{\scriptsize $\pm$ {escape_latex(cell.spread)}}}" if cell.spread else shown


def _format_value(value: TableValue) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
