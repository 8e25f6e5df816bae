"""The report: one self-contained page, and the tables beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import levelfield
from levelfield.compare import Comparison, Evidence, beside_published, verify, weigh
from levelfield.records import Store, experiment_record, write_text
from levelfield.reports._beside_table import beside_tables
from levelfield.reports._classes import classes_table, confusions_table
from levelfield.reports._comparison import pairs_table
from levelfield.reports._figures import differences_diagram, page_charts, search_charts, structure_charts
from levelfield.reports._gallery import gallery_section
from levelfield.reports._results_table import (
    caption,
    identity_table,
    ledger_table,
    reranking_table,
    results_lines,
    results_markdown,
    results_table,
    selections_table,
    warnings,
)
from levelfield.reports._trust import budget_table, conclusions, surroundings_table
from levelfield.reports.pages import ASSETS, asset, drawing, plot, render_page


def write_report(root: str | Path, *, evidence: Evidence | None = None, assets: bool = False) -> Path:
    """Write ``report/index.html`` and the tables beside it; returns the page's path.

    ``results.csv`` has one line per number, ``results.md`` and ``results.tex`` the main table, ``pairs.csv``
    one line per pair of methods, ``classes.csv`` one line per test class.

    Args:
        root: The folder that ``levelfield run`` wrote.
        evidence: What ``weigh`` made of it, if that is at hand.
        assets: Keep style and scripts in ``report/assets/`` instead of in the page.
    """
    evidence = evidence or weigh(root)
    comparison, leaders = evidence.comparison, evidence.leaders
    folder = Store(Path(root)).report_folder
    write_text(folder / "results.csv", results_lines(comparison).csv())
    write_text(folder / "results.md", results_markdown(comparison, leaders))
    write_text(folder / "results.tex", results_table(comparison, leaders).latex())
    write_text(folder / "pairs.csv", pairs_table(evidence).csv())
    classes = classes_table(evidence, limit=None)
    if classes is not None:
        write_text(folder / "classes.csv", classes.csv())
    for name in ASSETS if assets else ():
        write_text(folder / "assets" / name, asset(name))
    page = folder / "index.html"
    write_text(page, render_report(evidence, assets="assets/" if assets else None))
    return page


def render_report(evidence: Evidence, *, assets: str | None = None, home: str = "") -> str:
    """The page as HTML. Nothing in it is loaded from elsewhere.

    Args:
        evidence: The experiment.
        assets: Where style and scripts lie, as seen from the page; None puts them into it.
        home: Where a list of all experiments lies, if there is one.
    """
    comparison = evidence.comparison
    found = verify(evidence.root)
    can, cannot = conclusions(evidence, found)
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
        warnings=[*warnings(comparison), *found],
        split=comparison.split,
        caption=caption(comparison),
        results=results_table(comparison, evidence.leaders),
        findings=_findings(evidence),
        beside=beside_tables(beside_published(evidence, metrics=_shown_beside(evidence))),
        figures=[plot(chart) for chart in page_charts(evidence)],
        gallery=gallery_section(evidence),
        classes=classes_table(evidence),
        confusions=confusions_table(evidence),
        structure=[plot(chart) for chart in structure_charts(evidence)],
        searches=[
            (method, [plot(chart) for chart in charts]) for method, charts in search_charts(evidence).items()
        ],
        reranking=reranking_table(comparison),
        selections=selections_table(comparison),
        can=can,
        cannot=cannot,
        ledger=ledger_table(comparison),
        budget=budget_table(evidence),
        surroundings=surroundings_table(Store(evidence.root).runs()),
        identity=identity_table(),
        revisions=_revisions(comparison),
        yaml=yaml.safe_dump(recorded, sort_keys=False),
    )


def _findings(evidence: Evidence) -> dict[str, Any]:
    """The sentences: what is known of the best first, then all other pairs."""
    best = next(iter(evidence.means), None)
    diagram = differences_diagram(evidence)
    about_best = [finding for finding in evidence.findings if finding.first == best]
    others = [finding for finding in evidence.findings if finding.first != best]
    return {
        "what": f"{evidence.setting} {evidence.measure.label}",
        "points": evidence.measure.unit == "percent",
        "best": [(finding.verdict, finding.sentence) for finding in about_best],
        "others": [(finding.verdict, finding.sentence) for finding in others],
        "diagram": None if diagram is None else drawing(diagram),
        "caveats": evidence.caveats,
    }


def _shown_beside(evidence: Evidence) -> list[str]:
    """The measure of the selection, and the one that every paper prints."""
    wanted = dict.fromkeys((evidence.metric, "precision_at_1"))
    return [metric for metric in wanted if metric in evidence.comparison.metrics]


def _revisions(comparison: Comparison) -> list[str]:
    """What changed from one revision of the experiment file to the next; empty while there is only one."""
    lines = []
    for before, after in zip(comparison.revisions, comparison.revisions[1:], strict=False):
        changes = differences(
            {**experiment_record(before.experiment), "plugins": before.plugins},
            {**experiment_record(after.experiment), "plugins": after.plugins},
        )
        lines.append(f"{after.time}: " + "; ".join(changes))
    return lines


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """The leaves that differ between two nested values.

    Example:
        >>> differences({"search": {"trials": 5}}, {"search": {"trials": 8}})
        ['search.trials: 5 -> 8']
    """
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [
            line
            for key in keys
            for line in differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if before == after else [f"{path}: {before} -> {after}"]
