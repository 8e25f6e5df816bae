r"""The main table as LaTeX, for ``\input``; it needs the package booktabs."""

from __future__ import annotations

from itertools import groupby

from levelfield.protocol import Comparison
from levelfield.reports._tables import Leaders, caption, columns, metric_name, table_rows

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def results_latex(comparison: Comparison, leaders: Leaders | None = None) -> str:
    """A ``table`` of method against metric, settings side by side; bold as in the other tables."""
    wanted = columns(comparison)
    settings = [(name, len(list(group))) for name, group in groupby(setting for setting, _ in wanted)]
    heads = ["", *(rf"\multicolumn{{{count}}}{{c}}{{{name}}}" for name, count in settings), ""]
    names = ["method", *(escape(metric_name(metric)) for _, metric in wanted), "max. epoch"]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(comparison.experiment['dataset']['name'])}. {escape(caption(comparison))}"
        + (r" \textbf{Leaky: tuned with test feedback.}" if comparison.leaky else "")
        + "}",
        r"\begin{tabular}{l" + "r" * len(wanted) + "r}",
        r"\toprule",
        " & ".join(heads) + r" \\",
        *_rules(settings),
        " & ".join(names) + r" \\",
        r"\midrule",
    ]
    for row in table_rows(comparison, leaders):
        cells = [_cell(cell, bold=bold) for cell, bold in zip(row.cells, row.alike, strict=True)]
        lines.append(" & ".join([escape(row.method), *cells, row.epoch or "--"]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def escape(text: str) -> str:
    r"""Text with LaTeX's special characters written out.

    Example:
        >>> print(escape("proxy_nca 50%"))
        proxy\_nca 50\%
    """
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def _rules(settings: list[tuple[str, int]]) -> list[str]:
    rules, start = [], 2
    for _, count in settings:
        rules.append(rf"\cmidrule(lr){{{start}-{start + count - 1}}}")
        start += count
    return rules


def _cell(cell: str, *, bold: bool) -> str:
    if cell == "-":
        return "--"
    mean, plus_minus, half = cell.partition(" ± ")
    shown = rf"\textbf{{{mean}}}" if bold else mean
    return rf"{shown} {{\scriptsize $\pm$ {half}}}" if plus_minus else shown
