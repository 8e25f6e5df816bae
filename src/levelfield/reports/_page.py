"""Report of an experiment: one self-contained HTML page, and tables as files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup

import levelfield
from levelfield.analysis import (
    Analysis,
    Comparison,
    analyze,
    compare_with_published,
    conclude_experiment,
    verify,
)
from levelfield.config import Experiment
from levelfield.records import Store, dump_experiment, write_text
from levelfield.reports._alarm_rate import quote_alarm_rate
from levelfield.reports._classes import classes_table, confusions_table
from levelfield.reports._comparison import pairs_table
from levelfield.reports._figures import differences_diagram, page_charts, search_charts, structure_charts
from levelfield.reports._gallery import gallery_section
from levelfield.reports._published_table import build_published_tables
from levelfield.reports._record_tables import (
    identity_settings_table,
    ledger_table,
    reranking_table,
    selections_table,
)
from levelfield.reports._result_notes import interval_exceptions, result_notes, result_warnings
from levelfield.reports._results_table import (
    caption,
    results_latex,
    results_lines,
    results_markdown,
    results_table,
    verdict_json,
)
from levelfield.reports._trust import budget_table, conclusions, environment_table
from levelfield.reports.figures.experiment import scores
from levelfield.reports.pages import ASSETS, asset, data_block, embed_chart, embed_figure, render_page
from levelfield.reports.table import escape_latex


def write_report(root: str | Path, *, analysis: Analysis | None = None, assets: bool = False) -> Path:
    """Write ``report/index.html`` and the tables in ``report/``; return the path of the page.

    ``results.csv`` has one line per number, ``results.md`` and ``results.tex`` the main table, ``pairs.csv``
    one line per pair of methods, ``classes.csv`` one line per test class, ``verdict.json`` the conclusion.

    Args:
        root: Experiment directory.
        analysis: Result of :func:`levelfield.analysis.analyze` for ``root``. Computed by default.
        assets: Write style and scripts to ``report/assets/`` instead of into the page.
    """
    analysis = analysis or analyze(root)
    write_tables(root, analysis=analysis)
    directory = Store(Path(root)).report_directory
    classes = classes_table(analysis, limit=None)
    if classes is not None:
        write_text(directory / "classes.csv", classes.csv())
    for name in ASSETS if assets else ():
        write_text(directory / "assets" / name, asset(name))
    page = directory / "index.html"
    write_text(page, render_report(analysis, assets="assets/" if assets else None))
    return page


def write_tables(root: str | Path, *, analysis: Analysis | None = None) -> None:
    """Write the tables of the report that `levelfield verify` checks: results and pairs, without the page."""
    analysis = analysis or analyze(root)
    directory = Store(Path(root)).report_directory
    write_text(directory / "results.csv", results_lines(analysis).csv())
    write_text(directory / "results.md", results_markdown(analysis))
    write_text(directory / "results.tex", results_latex(analysis))
    write_text(directory / "pairs.csv", pairs_table(analysis).csv())
    write_text(directory / "verdict.json", verdict_json(analysis))


def render_report(analysis: Analysis, *, assets: str | None = None, home: str = "") -> str:
    """Return the report page as HTML. The page loads nothing from other hosts.

    Args:
        analysis: Analysis of the experiment.
        assets: Relative URL of the directory with style and scripts; None puts them into the page.
        home: URL of a list of all experiments, if there is one.
    """
    comparison = analysis.comparison
    found = verify(analysis.root)
    can, cannot = conclusions(analysis, found)
    recorded = comparison.experiment.model_dump(
        mode="json", exclude={"engine": True, "plugins": True, "dataset": {"root"}, "search": {"storage"}}
    )
    return render_page(
        "report.html",
        assets=assets,
        home=home,
        experiment=comparison.experiment,
        version=levelfield.__version__,
        methods=len(comparison.trained),
        leaky=comparison.leaky,
        conclusion=conclude_experiment(analysis),
        how_sure=_how_sure(analysis),
        intervals=embed_chart(scores(analysis)) if analysis.means else None,
        problems=found,
        notes=[*result_warnings(comparison), *result_notes(analysis)],
        copies=_copies(analysis),
        split=comparison.split,
        caption=" ".join(filter(None, [caption(analysis), interval_exceptions(analysis)])),
        results=results_table(analysis),
        differences=_differences(analysis),
        published=build_published_tables(
            compare_with_published(analysis, metrics=_published_metrics(analysis))
        ),
        figures=[embed_chart(chart) for chart in page_charts(analysis)],
        gallery=gallery_section(analysis),
        classes=classes_table(analysis),
        confusions=confusions_table(analysis),
        structure=[embed_chart(chart) for chart in structure_charts(analysis)],
        searches=[
            (method, [embed_chart(chart) for chart in charts])
            for method, charts in search_charts(analysis).items()
        ],
        reranking=reranking_table(comparison),
        selections=selections_table(comparison),
        can=can,
        cannot=cannot,
        ledger=ledger_table(comparison),
        budget=budget_table(analysis),
        environment=environment_table(Store(analysis.root).runs()),
        identity=identity_settings_table(),
        revisions=_revisions(comparison),
        yaml=yaml.safe_dump(recorded, sort_keys=False),
    )


def render_report_head(experiment: Experiment, *, assets: str) -> str:
    """Return the start of the page that :func:`render_report` returns, for a server that sends it first."""
    return render_page("_report_head.html", assets=assets, experiment=experiment)


def _how_sure(analysis: Analysis) -> str:
    """Return one sentence on what the verdicts count as chance."""
    judgment = analysis.judgments.get((analysis.setting, analysis.metric))
    if judgment is None or not judgment.pairs:
        return ""
    classes = f"{judgment.classes} test classes" if judgment.classes else "no values per class"
    searches = f"{judgment.repeats} searches, " if judgment.repeats > 1 else ""
    return (
        f"From {classes}, {searches}{judgment.reruns} reruns. All pairs are judged together at "
        f"{1 - judgment.alpha:.0%}."
    )


def _copies(analysis: Analysis) -> list[tuple[str, str, Markup]]:
    """Return label, id and hidden text of each copy button."""
    name = analysis.comparison.experiment.name
    citation = (
        f"@misc{{levelfield-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')},\n"
        f"  title = {{{escape_latex(name)}: a comparison of embedding methods}},\n"
        f"  note = {{levelfield {levelfield.__version__}}},\n}}\n"
    )
    texts = {
        "Copy as LaTeX": results_latex(analysis),
        "Copy as Markdown": results_markdown(analysis),
        "Copy as CSV": results_lines(analysis).csv(),
        "Copy citation": citation,
    }
    return [
        (label, f"copy-{number}", data_block(text, name=f"copy-{number}"))
        for number, (label, text) in enumerate(texts.items())
    ]


def _differences(analysis: Analysis) -> dict[str, Any]:
    """Return the content of the section "Differences": pairs of the best method first."""
    best = next(iter(analysis.means), None)
    diagram = differences_diagram(analysis)
    rate = quote_alarm_rate(analysis)
    about_best = [pair for pair in analysis.pairs if pair.first == best]
    others = [pair for pair in analysis.pairs if pair.first != best]
    return {
        "metric": f"{analysis.setting} {analysis.metric_info.label}",
        "points": analysis.metric_info.unit == "percent",
        "best": [(pair.verdict, pair.sentence) for pair in about_best],
        "others": [(pair.verdict, pair.sentence) for pair in others],
        "diagram": None if diagram is None else embed_figure(diagram),
        "caveats": [*analysis.caveats, *([] if rate is None else [rate.sentence])],
    }


def _published_metrics(analysis: Analysis) -> list[str]:
    """Return the selection metric and Precision@1, which all papers print."""
    wanted = dict.fromkeys((analysis.metric, "precision_at_1"))
    return [metric for metric in wanted if metric in analysis.comparison.metrics]


def _revisions(comparison: Comparison) -> list[str]:
    """Return the changes between revisions of the experiment, one line per revision after the first."""
    lines = []
    for before, after in zip(comparison.revisions, comparison.revisions[1:], strict=False):
        changes = list_changes(
            {**dump_experiment(before.experiment), "plugins": before.plugins},
            {**dump_experiment(after.experiment), "plugins": after.plugins},
        )
        if changes:  # else only what reports state was added
            lines.append(f"{after.time}: " + "; ".join(changes))
    return lines


def list_changes(before: Any, after: Any, path: str = "") -> list[str]:
    """Return the leaves that differ between two nested values.

    Example:
        >>> list_changes({"search": {"trials": 5}}, {"search": {"trials": 8}})
        ['search.trials: 5 -> 8']
    """
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [
            line
            for key in keys
            for line in list_changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if before == after else [f"{path}: {before} -> {after}"]
