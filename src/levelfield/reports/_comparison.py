"""What ``levelfield compare`` says: as Markdown, as CSV and LaTeX beside it, and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from levelfield.compare import Across, Beside, Evidence, beside_published, case_names
from levelfield.records import write_text
from levelfield.reports._beside_table import beside_tables
from levelfield.reports._results_table import LEAKY
from levelfield.reports.table import Cell, Emphasis, Entry, Table, score
from levelfield.stats import critical_difference_diagram


def comparison_markdown(experiments: Sequence[Evidence], across: Across | None) -> str:
    """Tables and sentences of each experiment, then over all of them."""
    parts = []
    for name, evidence in zip(case_names(experiments), experiments, strict=True):
        parts += _experiment(name, evidence)
    if across is not None:
        parts += _across(across)
    return "\n".join(parts).rstrip() + "\n"


def _experiment(name: str, evidence: Evidence) -> list[str]:
    measure = evidence.measure
    lines = [f"# {name}: {evidence.setting} {measure.label}", ""]
    if evidence.comparison.leaky:
        lines += [f"**{LEAKY}**", ""]
    unit = "Percent; bold" if measure.unit == "percent" else "Bold"
    lines += [
        means_table(evidence).markdown(),
        "",
        f"{unit}: no method was found better.",
        "",
    ]
    if evidence.findings:
        lines += ["## What is different from what", ""]
        lines += [f"- {finding.sentence}" for finding in evidence.findings] + [""]
        lines += [f"- {caveat}" for caveat in evidence.caveats] + [""]
    for table in beside_tables(published_rows(evidence)):
        lines += ["## Beside published numbers", "", table.markdown(), ""]
    return lines


def means_table(evidence: Evidence) -> Table:
    """The mean of each method by the measure of the comparison, best first."""
    leaders = evidence.leaders[evidence.setting, evidence.metric]
    results = {result.method: result for result in evidence.comparison.results}
    rows: list[list[Entry]] = []
    for method in evidence.means:
        interval = results[method].interval(evidence.setting, evidence.metric)
        emphasis: Emphasis = "alike" if method in leaders else ""
        reruns = len(results[method].scores[evidence.setting][evidence.metric])
        rows.append([method, score(interval, evidence.measure, emphasis), reruns])
    return Table.of(["method", "mean", "reruns"], rows)


def pairs_table(evidence: Evidence) -> Table:
    """One line per pair of methods for ``pairs.csv``, full precision."""
    records = [finding.as_dict() | {"leaky": evidence.comparison.leaky} for finding in evidence.findings]
    return Table.of_records(records, ("first", "second", "verdict", "leaky"))


def across_table(across: Across) -> Table:
    """Mean scores of the methods that all experiments have, a column per experiment."""
    rows: list[list[Entry]] = []
    for method in next(iter(across.cases.values()), {}):
        cells = [
            Cell(
                across.measure.shown(case[method]),
                value=case[method],
                emphasis="alike" if method in across.leaders[name] else "",
            )
            for name, case in across.cases.items()
        ]
        rows.append([method, *cells])
    return Table.of(["method", *across.cases], rows)


def published_rows(evidence: Evidence) -> list[Beside]:
    """The closest published row of each source, for the setting and metric of the comparison."""
    rows = beside_published(evidence, metrics=[evidence.metric])
    return [row for row in rows if row.setting == evidence.setting]


def beside_published_tables(evidence: Evidence) -> list[Table]:
    """Published numbers beside one's own, for the setting and metric of the comparison."""
    return beside_tables(published_rows(evidence))


def _across(across: Across) -> list[str]:
    lines = [f"# Over all experiments: {across.setting} {across.measure.label}", ""]
    table = across_table(across)
    lines += [table.markdown(), ""] if table.rows else []
    lines += [f"- {sentence}" for sentence in across.sentences]
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
                "leaky": evidence.comparison.leaky,
                "setting": evidence.setting,
                "metric": evidence.metric,
                "means": evidence.means,
                "leaders": sorted(evidence.leaders[evidence.setting, evidence.metric]),
                "pairs": [finding.as_dict() for finding in evidence.findings],
                "caveats": list(evidence.caveats),
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


def write_comparison(
    folder: Path, experiments: Sequence[Evidence], across: Across | None, text: str
) -> list[Path]:
    """Write the text, each experiment's pairs as CSV, and over several the table and the diagram."""
    written = [folder / "comparison.md"]
    write_text(written[0], text)
    for name, evidence in zip(case_names(experiments), experiments, strict=True):
        pairs = folder / f"pairs-{Path(name).name}.csv"
        write_text(pairs, pairs_table(evidence).csv())
        written.append(pairs)
    if across is not None:
        written.append(folder / "across.tex")
        write_text(written[-1], across_table(across).latex())
        if across.test is not None:
            from levelfield.reports.figures import write_png, write_svg

            diagram = critical_difference_diagram(across.test)
            written += [folder / "critical-difference.png", folder / "critical-difference.svg"]
            write_png(diagram, written[-2])
            write_svg(diagram, written[-1])
    return written
