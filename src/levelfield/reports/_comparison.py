"""Output of ``levelfield compare``: Markdown, CSV, LaTeX and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from levelfield.analysis import (
    Analysis,
    ExperimentsComparison,
    PublishedComparison,
    compare_with_published,
    conclude_experiment,
    experiment_labels,
    find_repeated_pairs,
)
from levelfield.records import write_text
from levelfield.reports._markdown import escape_markdown
from levelfield.reports._published_table import build_published_tables
from levelfield.reports._result_notes import interval_exceptions
from levelfield.reports._results_table import LEAKY
from levelfield.reports.figures.rank_diagram import critical_difference_diagram
from levelfield.reports.table import Emphasis, Table, TableCell, TableEntry, score_cell


def comparison_markdown(experiments: Sequence[Analysis], overall: ExperimentsComparison | None) -> str:
    """Return tables and sentences of each experiment, then those over all, and last the verdict over all."""
    parts = []
    for name, analysis in zip(experiment_labels(experiments), experiments, strict=True):
        parts += _experiment_lines(name, analysis)
    if overall is not None:
        parts += _overall_lines(overall)
        parts += [f"**{' '.join(find_repeated_pairs(experiments).sentences)}**"]
    return "\n".join(parts).rstrip() + "\n"


def _experiment_lines(name: str, analysis: Analysis) -> list[str]:
    metric_info = analysis.metric_info
    lines = [f"# {escape_markdown(name)}: {analysis.setting} {metric_info.label}", ""]
    if analysis.comparison.leaky:
        lines += [f"**{LEAKY}**", ""]
    lines += [f"**{escape_markdown(conclude_experiment(analysis).text)}**", ""]
    unit = "Percent; bold" if metric_info.unit == "percent" else "Bold"
    lines += [
        means_table(analysis).markdown(),
        "",
        f"{unit}: the best mean. Methods differ if their intervals (±) do not overlap.",
        "",
    ]
    if analysis.pairs:
        lines += ["## Which methods differ", ""]
        lines += [f"- {escape_markdown(pair.sentence)}" for pair in analysis.pairs] + [""]
        lines += [f"- {escape_markdown(caveat)}" for caveat in analysis.caveats] + [""]
    for table in build_published_tables(published_rows(analysis)):
        lines += ["## Published numbers", "", table.markdown(), ""]
    return lines


def means_table(analysis: Analysis) -> Table:
    """Return the mean score of each method, best first."""
    leaders = analysis.leaders[analysis.setting, analysis.metric]
    results = {result.method: result for result in analysis.comparison.results}
    rows: list[list[TableEntry]] = []
    best = next(iter(analysis.means), None) if analysis.metric_info.higher_is_better is not None else None
    for method in analysis.means:
        interval = analysis.interval(method, analysis.setting, analysis.metric)
        emphasis: Emphasis = "best" if method == best else "alike" if method in leaders else ""
        reruns = len(results[method].scores[analysis.setting][analysis.metric])
        rows.append([method, score_cell(interval, analysis.metric_info, emphasis), reruns])
    exceptions = interval_exceptions(analysis)
    return Table.from_rows(["method", "mean", "reruns"], rows, notes=(exceptions,) if exceptions else ())


def pairs_table(analysis: Analysis) -> Table:
    """Return the table of ``pairs.csv``: one line per pair of methods, in full precision."""
    records = [pair.as_dict() | {"leaky": analysis.comparison.leaky} for pair in analysis.pairs]
    return Table.from_records(records, ("first", "second", "verdict", "leaky"))


def experiments_table(overall: ExperimentsComparison) -> Table:
    """Return mean scores of the methods that all experiments have, with a column per experiment."""
    rows: list[list[TableEntry]] = []
    for method in next(iter(overall.cases.values()), {}):
        cells = [
            TableCell(
                overall.metric_info.shown(case[method]),
                value=case[method],
                emphasis="alike" if method in overall.leaders[name] else "",
            )
            for name, case in overall.cases.items()
        ]
        rows.append([method, *cells])
    return Table.from_rows(["method", *overall.cases], rows)


def published_rows(analysis: Analysis) -> list[PublishedComparison]:
    """Return the closest published number of each source, for the setting and metric of the analysis."""
    rows = compare_with_published(analysis, metrics=[analysis.metric])
    return [row for row in rows if row.setting == analysis.setting]


def published_comparison_tables(analysis: Analysis) -> list[Table]:
    """Return tables of own and published numbers, for the setting and metric of the analysis."""
    return build_published_tables(published_rows(analysis))


def _overall_lines(overall: ExperimentsComparison) -> list[str]:
    lines = [f"# All experiments: {overall.setting} {overall.metric_info.label}", ""]
    table = experiments_table(overall)
    lines += [table.markdown(), ""] if table.rows else []
    lines += [f"- {escape_markdown(sentence)}" for sentence in overall.sentences]
    if overall.left_out:
        lines.append(f"- Left out because they are not in every experiment: {', '.join(overall.left_out)}.")
    if overall.differing:
        lines.append(f"- The experiments' protocols differ in: {', '.join(overall.differing)}.")
    return [*lines, ""]


def comparison_json(experiments: Sequence[Analysis], overall: ExperimentsComparison | None) -> dict[str, Any]:
    """Return the comparison for JSON; scores are fractions."""
    found: dict[str, Any] = {"experiments": []}
    for name, analysis in zip(experiment_labels(experiments), experiments, strict=True):
        found["experiments"].append(
            {
                "name": name,
                "leaky": analysis.comparison.leaky,
                "verdict": conclude_experiment(analysis).text,
                "setting": analysis.setting,
                "metric": analysis.metric,
                "means": analysis.means,
                "leaders": sorted(analysis.leaders[analysis.setting, analysis.metric]),
                "pairs": [pair.as_dict() for pair in analysis.pairs],
                "caveats": list(analysis.caveats),
                "published": [row.as_dict() for row in published_rows(analysis)],
            }
        )
    if overall is not None:
        found["across"] = {"cases": overall.cases, "sentences": overall.sentences}
        if overall.together is not None:
            found["across"]["in_general"] = {
                "means": overall.together.means,
                "interaction": overall.together.interaction,
                "repeats": overall.together.sentence,
                "pairs": [
                    {
                        "first": pair.first,
                        "second": pair.second,
                        "verdict": pair.verdict,
                        "difference": pair.difference,
                        "low": pair.low,
                        "high": pair.high,
                        "p_adjusted": pair.p_adjusted,
                    }
                    for pair in overall.together.pairs
                ],
            }
        if overall.test is not None:
            found["across"] |= {
                "mean_ranks": dict(overall.test.mean_ranks),
                "friedman_p": overall.test.p_value,
                "critical_difference": overall.test.critical_difference,
            }
    return found


def write_comparison(
    directory: Path, experiments: Sequence[Analysis], overall: ExperimentsComparison | None, text: str
) -> list[Path]:
    """Write the text, the pairs of each experiment as CSV, and for several experiments the rank diagram.

    Args:
        directory: Output directory.
        experiments: Analysis of each experiment.
        overall: Ranks over all experiments; None for one experiment.
        text: Content of ``comparison.md``.

    Returns:
        Paths of the written files.
    """
    written = [directory / "comparison.md"]
    write_text(written[0], text)
    for name, analysis in zip(experiment_labels(experiments), experiments, strict=True):
        pairs = directory / f"pairs-{Path(name).name}.csv"
        write_text(pairs, pairs_table(analysis).csv())
        written.append(pairs)
    if overall is not None:
        written.append(directory / "across.tex")
        write_text(written[-1], experiments_table(overall).latex())
        if overall.test is not None:
            from levelfield.reports.figures import write_png, write_svg

            diagram = critical_difference_diagram(overall.test)
            written += [directory / "critical-difference.png", directory / "critical-difference.svg"]
            write_png(diagram, written[-2])
            write_svg(diagram, written[-1])
    return written
