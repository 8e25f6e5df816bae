"""What ``levelfield compare`` says: as Markdown, as CSV and LaTeX beside it, and for machines."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield.records import write_text
from levelfield.reports._across import Across, case_names
from levelfield.reports._beside import Beside, beside_published
from levelfield.reports._beside_table import beside_tables
from levelfield.reports._evidence import Evidence, find, ranked
from levelfield.reports._findings import Finding
from levelfield.reports._latex import escape
from levelfield.reports._tables import metric_name, percent
from levelfield.stats import critical_difference_diagram


def focus(evidence: Evidence, against: str) -> Evidence:
    """The same with findings about one method only, corrected for fewer pairs; "best" means the best mean."""
    if against == "best":
        against = next(iter(ranked(evidence.confirmations, evidence.setting, evidence.metric)), against)
    found = find(evidence.confirmations, evidence.setting, evidence.metric, against=against)
    return replace(evidence, findings=tuple(found))


def comparison_markdown(experiments: Sequence[Evidence], across: Across | None) -> str:
    """Tables and sentences of each experiment, then over all of them."""
    parts = []
    for name, evidence in zip(case_names(experiments), experiments, strict=True):
        parts += _experiment(name, evidence)
    if across is not None:
        parts += _across(across)
    return "\n".join(parts).rstrip() + "\n"


def _experiment(name: str, evidence: Evidence) -> list[str]:
    metric = metric_name(evidence.metric)
    lines = [f"# {name}: {evidence.setting} {metric}", ""]
    if evidence.comparison.leaky:
        lines += ["**Leaky: tuned with test feedback.**", ""]
    lines += ["| method | mean | reruns |", "|---|---:|---:|"]
    leaders = evidence.leaders[evidence.setting, evidence.metric]
    results = {result.method: result for result in evidence.comparison.results}
    for method in ranked(evidence.confirmations, evidence.setting, evidence.metric):
        interval = results[method].interval(evidence.setting, evidence.metric)
        shown = percent(interval)
        lines.append(f"| {method} | {f'**{shown}**' if method in leaders else shown} | {interval.n} |")
    lines += ["", "Percent; bold: the best mean and those not distinguishable from it.", ""]
    if evidence.findings:
        lines += ["## What is different from what", ""]
        lines += [f"- {finding.sentence}" for finding in evidence.findings] + [""]
    for table in beside_tables(published_rows(evidence)):
        lines += ["## Beside published numbers", "", *table.markdown(), ""]
    return lines


def published_rows(evidence: Evidence) -> list[Beside]:
    """The closest published row of each source, for the setting and metric of the comparison."""
    rows = beside_published(evidence, metrics=[evidence.metric])
    return [row for row in rows if row.setting == evidence.setting]


def _across(across: Across) -> list[str]:
    lines = [f"# Over all experiments: {across.setting} {metric_name(across.metric)}", ""]
    methods = list(next(iter(across.cases.values()), {}))
    if methods:
        lines += ["| method | " + " | ".join(across.cases) + " |", "|---|" + "---:|" * len(across.cases)]
    for method in methods:
        cells = [
            f"**{100 * case[method]:.2f}**" if method in across.leaders[name] else f"{100 * case[method]:.2f}"
            for name, case in across.cases.items()
        ]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines += ["", *(f"- {sentence}" for sentence in across.sentences)]
    if across.left_out:
        lines.append(f"- Left out, not in every experiment: {', '.join(across.left_out)}.")
    if across.differing:
        lines.append(f"- The experiments' protocols differ in: {', '.join(across.differing)}.")
    return [*lines, ""]


def comparison_json(experiments: Sequence[Evidence], across: Across | None) -> dict[str, Any]:
    """The same for machines; scores are fractions."""
    found: dict[str, Any] = {"experiments": []}
    for name, evidence in zip(case_names(experiments), experiments, strict=True):
        found["experiments"].append(
            {
                "name": name,
                "setting": evidence.setting,
                "metric": evidence.metric,
                "means": ranked(evidence.confirmations, evidence.setting, evidence.metric),
                "leaders": sorted(evidence.leaders[evidence.setting, evidence.metric]),
                "pairs": [finding.row() for finding in evidence.findings],
                "published": [row.as_dict() for row in published_rows(evidence)],
            }
        )
    if across is not None:
        found["across"] = {"cases": across.cases, "sentences": across.sentences}
        if across.test is not None:
            found["across"] |= {
                "mean_ranks": dict(across.test.mean_ranks),
                "friedman_p": across.test.p_value,
                "critical_difference": across.test.critical_difference,
            }
    return found


def findings_csv(findings: Sequence[Finding]) -> str:
    """One line per pair, full precision."""
    out = io.StringIO()
    if findings:
        writer = csv.DictWriter(out, list(findings[0].row()), lineterminator="\n")
        writer.writeheader()
        writer.writerows(finding.row() for finding in findings)
    return out.getvalue()


def across_latex(across: Across) -> str:
    """Mean scores of the common methods, a column per experiment; bold as in the other tables."""
    lines = [
        r"\begin{tabular}{l" + "r" * len(across.cases) + "}",
        r"\toprule",
        " & ".join(["method", *map(escape, across.cases)]) + r" \\",
        r"\midrule",
    ]
    for method in next(iter(across.cases.values()), {}):
        cells = [escape(method)]
        for name, case in across.cases.items():
            shown = f"{100 * case[method]:.2f}"
            cells.append(rf"\textbf{{{shown}}}" if method in across.leaders[name] else shown)
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def write_comparison(
    folder: Path, experiments: Sequence[Evidence], across: Across | None, text: str
) -> list[Path]:
    """Write the text, each experiment's pairs as CSV, and over several the table and the diagram."""
    written = [folder / "comparison.md"]
    write_text(written[0], text)
    for name, evidence in zip(case_names(experiments), experiments, strict=True):
        pairs = folder / f"pairs-{Path(name).name}.csv"
        write_text(pairs, findings_csv(evidence.findings))
        written.append(pairs)
    if across is not None:
        written.append(folder / "across.tex")
        write_text(written[-1], across_latex(across))
        if across.test is not None:
            from levelfield.reports.figures.published_draw import write_png

            written.append(folder / "critical-difference.png")
            write_png(critical_difference_diagram(across.test), written[-1])
    return written
