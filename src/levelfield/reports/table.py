"""One table, shown as HTML, Markdown, LaTeX, CSV or in the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_html
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from levelfield.compare import Measure
from levelfield.stats import Interval

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Value = str | int | float | bool | None
Entry: TypeAlias = "str | int | float | bool | Cell | None"
Emphasis = Literal["", "alike", "best"]

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Column:
    """What stands above a column.

    Attributes:
        head: Its name.
        group: What stands above several columns side by side.
        left: Words, flush left; numbers are flush right.
        aside: A remark that only HTML and Markdown have room for.
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
class Cell:
    """One entry.

    Attributes:
        text: As people read it.
        spread: What stands after "±", if anything.
        value: For machines, in full precision; the text where there is none.
        half_width: The spread for machines.
        emphasis: "best" for the best of a column, "alike" for what may be as good; both are
            bold.
    """

    text: str
    spread: str = ""
    value: Value = None
    half_width: float | None = None
    emphasis: Emphasis = ""

    @property
    def whole(self) -> str:
        """Text and spread."""
        return f"{self.text} ± {self.spread}" if self.spread else self.text


@dataclass(frozen=True)
class Row:
    """One line; ``quiet`` ones, such as the untrained baseline, are set apart in HTML."""

    cells: tuple[Cell, ...]
    quiet: bool = False


@dataclass(frozen=True)
class Table:
    """Columns, rows, and what is said about them.

    Attributes:
        columns: From left to right.
        rows: Each with one cell per column.
        title: Above it in the terminal.
        caption: Of the LaTeX float; without one LaTeX gets the bare ``tabular``.
        notes: Below it, one line each.

    Example:
        >>> table = Table.of(["method", "MAP@R"], [["triplet", 0.5]])
        >>> print(table.markdown())
        | method | MAP@R |
        |---|---:|
        | triplet | 0.5 |
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    caption: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, heads: Sequence[str], rows: Iterable[Sequence[Entry]], **options: Any) -> Table:
        """A table of plain values; the first column is flush left."""
        columns = tuple(Column(head, left=number == 0) for number, head in enumerate(heads))
        lines = tuple(
            Row(tuple(value if isinstance(value, Cell) else plain(value) for value in row)) for row in rows
        )
        return cls(columns, lines, **options)

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Value]], heads: Sequence[str] = ()) -> Table:
        """A table whose rows are given by column name; ``heads`` names the columns of an empty one."""
        heads = list(records[0]) if records else heads
        return cls.of(heads, [[record[head] for head in heads] for record in records])

    @property
    def groups(self) -> list[tuple[str, int]]:
        """What stands above the columns, with how many it spans; empty if nothing does."""
        found = [(name, len(list(columns))) for name, columns in groupby(c.group for c in self.columns)]
        return found if any(name for name, _ in found) else []

    def markdown(self) -> str:
        """As Markdown, notes included."""
        lines = [
            _markdown_line(column.full_head for column in self.columns),
            "|" + "".join("---|" if column.left else "---:|" for column in self.columns),
        ]
        for row in self.rows:
            lines.append(
                _markdown_line(
                    f"**{cell.whole}**" if cell.emphasis and cell.whole else cell.whole for cell in row.cells
                )
            )
        return "\n".join([*lines, *([""] if self.notes else []), *(f"- {note}" for note in self.notes)])

    def html(self, *, sortable: bool = False) -> str:
        """As HTML, notes included; classes "best", "alike", "note" and "baseline" are the page's to style.

        With ``sortable`` the script of our pages lets readers sort by a click on a column's head.
        """
        lines = ['<table class="sortable">' if sortable else "<table>", "<thead>"]
        if self.groups:
            spans = (
                f'<{(tag := "th" if name else "td")} colspan="{count}">{escape_html(name)}</{tag}>'
                for name, count in self.groups
            )
            lines.append(f'<tr class="groups">{"".join(spans)}</tr>')
        names = ["note" if column.left and number else "" for number, column in enumerate(self.columns)]
        pairs = zip(self.columns, names, strict=True)
        heads = (_tag("th", column.head, name, scope="col") for column, name in pairs)
        lines += [f"<tr>{''.join(heads)}</tr>", "</thead>", "<tbody>"]
        for row in self.rows:
            cells = (
                _tag("td", cell.whole, cell.emphasis or name)
                for cell, name in zip(row.cells, names, strict=True)
            )
            start = '<tr class="baseline">' if row.quiet else "<tr>"
            lines.append(f"{start}{''.join(cells)}</tr>")
        lines += ["</tbody>", "</table>"]
        if self.notes:
            notes = "".join(f'<li class="none">{escape_html(note)}</li>' for note in self.notes)
            lines.append(f'<ul class="findings">{notes}</ul>')
        return "\n".join(lines)

    def latex(self) -> str:
        """As LaTeX for ``\\input``, without the asides; it needs the package booktabs."""
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
        """As CSV in full precision; a column with spreads is followed by one of its half-widths."""
        spread = [
            any(row.cells[n].half_width is not None for row in self.rows) for n in range(len(self.columns))
        ]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        heads: list[str] = []
        for column, wide in zip(self.columns, spread, strict=True):
            heads += [column.full_head, f"{column.full_head} half_width_95"] if wide else [column.full_head]
        writer.writerow(heads)
        for row in self.rows:
            line: list[str] = []
            for cell, wide in zip(row.cells, spread, strict=True):
                line.append(cell.text if cell.value is None else _machine(cell.value))
                line += [_machine(cell.half_width)] if wide else []
            writer.writerow(line)
        return out.getvalue()

    def rich(self) -> RichTable:
        """For the terminal, without title and asides."""
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable()
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
            shown.add_row(*(Text(cell.whole, style="bold" if cell.emphasis else "") for cell in cells))
        return shown


def plain(value: Value) -> Cell:
    """A value as it is; floats are shown with four digits, and nothing as nothing."""
    if value is None:
        return Cell("")
    return Cell(f"{value:.4g}" if isinstance(value, float) else _machine(value), value=value)


def score(interval: Interval, measure: Measure, emphasis: Emphasis = "") -> Cell:
    """A mean with its 95% interval; just the mean of a single rerun, "-" without any."""
    if interval.n == 0:
        return Cell("-")
    if interval.n < 2:
        return Cell(measure.shown(interval.mean), value=float(interval.mean), emphasis=emphasis)
    return Cell(
        text=measure.shown(interval.mean),
        spread=measure.shown(interval.half_width),
        value=float(interval.mean),
        half_width=float(interval.half_width),
        emphasis=emphasis,
    )


def escape_latex(text: str) -> str:
    r"""Text with LaTeX's special characters written out.

    Example:
        >>> print(escape_latex("proxy_nca 50%"))
        proxy\_nca 50\%
    """
    return "".join(LATEX_SPECIAL.get(sign, sign) for sign in text)


def _tag(tag: str, text: str, name: str, *, scope: str = "") -> str:
    mark = (f' scope="{scope}"' if scope else "") + (f' class="{name}"' if name else "")
    return f"<{tag}{mark}>{escape_html(text)}</{tag}>"


def _markdown_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _latex_rules(groups: Sequence[tuple[str, int]]) -> list[str]:
    rules, start = [], 1
    for name, count in groups:
        if name:
            rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    return rules


def _latex_cell(cell: Cell, column: Column) -> str:
    if not column.left and cell.text in ("", "-"):
        return "--"
    text = escape_latex(cell.text)
    shown = rf"\textbf{{{text}}}" if cell.emphasis else text
    return rf"{shown} {{\scriptsize $\pm$ {escape_latex(cell.spread)}}}" if cell.spread else shown


def _machine(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
