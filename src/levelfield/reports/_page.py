"""The report: one self-contained page, and the tables beside it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import yaml

import levelfield
from levelfield.compare import Comparison, Evidence, beside_published, verify, weigh
from levelfield.records import Store, experiment_record, write_text
from levelfield.reports._beside_table import beside_tables
from levelfield.reports._comparison import pairs_table
from levelfield.reports._figures import page_charts
from levelfield.reports._results_table import (
    caption,
    identity_table,
    ledger_table,
    results_lines,
    results_markdown,
    results_table,
    selections_table,
    warnings,
)
from levelfield.reports.figures.charts import Chart


def write_report(root: str | Path, *, evidence: Evidence | None = None) -> Path:
    """Write ``report/index.html`` and the tables beside it; returns the page's path.

    ``results.csv`` has one line per number, ``results.md`` and ``results.tex`` the main table, ``pairs.csv``
    one line per pair of methods.

    Args:
        root: The folder that ``levelfield run`` wrote.
        evidence: What ``weigh`` made of it, if that is at hand.
    """
    evidence = evidence or weigh(root)
    comparison, leaders = evidence.comparison, evidence.leaders
    folder = Store(Path(root)).report_folder
    write_text(folder / "results.csv", results_lines(comparison).csv())
    write_text(folder / "results.md", results_markdown(comparison, leaders))
    write_text(folder / "results.tex", results_table(comparison, leaders).latex())
    write_text(folder / "pairs.csv", pairs_table(evidence).csv())
    page = folder / "index.html"
    write_text(page, render(evidence))
    return page


def render(evidence: Evidence) -> str:
    """The page as HTML. Nothing in it is loaded from elsewhere."""
    comparison = evidence.comparison
    template = (resources.files("levelfield.reports") / "templates" / "report.html").read_text(
        encoding="utf-8"
    )
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    charts = page_charts(evidence)
    recorded = comparison.experiment.model_dump(
        mode="json", exclude={"engine": True, "plugins": True, "dataset": {"root"}, "search": {"storage"}}
    )
    return environment.from_string(template).render(
        experiment=comparison.experiment,
        version=levelfield.__version__,
        methods=len(comparison.trained),
        leaky=comparison.leaky,
        warnings=[*warnings(comparison), *verify(evidence.root)],
        split=comparison.split,
        caption=caption(comparison),
        results=results_table(comparison, evidence.leaders),
        findings=_findings(evidence),
        beside=beside_tables(beside_published(evidence, metrics=_shown_beside(evidence))),
        figures=[
            (title, _figure(chart, with_script=number == 0))
            for number, (title, chart) in enumerate(charts.items())
        ],
        selections=selections_table(comparison),
        ledger=ledger_table(comparison),
        identity=identity_table(),
        revisions=_revisions(comparison),
        yaml=yaml.safe_dump(recorded, sort_keys=False),
    )


def _findings(evidence: Evidence) -> dict[str, Any]:
    """The sentences: what is known of the best first, then all other pairs."""
    best = next(iter(evidence.means), None)
    about_best = [finding for finding in evidence.findings if finding.first == best]
    others = [finding for finding in evidence.findings if finding.first != best]
    return {
        "what": f"{evidence.setting} {evidence.measure.label}",
        "points": evidence.measure.unit == "percent",
        "best": [(finding.verdict, finding.sentence) for finding in about_best],
        "others": [(finding.verdict, finding.sentence) for finding in others],
        "caveats": evidence.caveats,
    }


def _shown_beside(evidence: Evidence) -> list[str]:
    """The measure of the selection, and the one that every paper prints."""
    wanted = dict.fromkeys((evidence.metric, "precision_at_1"))
    return [metric for metric in wanted if metric in evidence.comparison.metrics]


def _figure(chart: Chart, *, with_script: bool) -> str:
    """A chart as a piece of the page; the first brings plotly's script for all of them."""
    import plotly.io

    from levelfield.reports.figures import interactive

    config = {"displaylogo": False, "responsive": True}
    return str(
        plotly.io.to_html(interactive(chart), full_html=False, include_plotlyjs=with_script, config=config)
    )


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
