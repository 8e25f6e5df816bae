"""The report: one self-contained page, and the tables beside it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import plotly.io
import yaml

import levelfield
from levelfield.protocol import SETTINGS, Comparison
from levelfield.records import Store, write_text
from levelfield.reports import _tables
from levelfield.reports._beside import beside_published
from levelfield.reports._beside_table import beside_tables
from levelfield.reports._compare import findings_csv
from levelfield.reports._evidence import Evidence, ranked, weigh
from levelfield.reports._figures import page_charts
from levelfield.reports._latex import results_latex
from levelfield.reports.figures._interactive import interactive


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
    write_text(folder / "results.csv", _tables.results_csv(comparison))
    write_text(folder / "results.md", _tables.results_markdown(comparison, leaders))
    write_text(folder / "results.tex", results_latex(comparison, leaders))
    write_text(folder / "pairs.csv", findings_csv(evidence.findings))
    page = folder / "index.html"
    write_text(page, render(evidence))
    return page


def render(evidence: Evidence) -> str:
    """The page as HTML. Nothing in it is loaded from elsewhere."""
    comparison = evidence.comparison
    figures = {title: interactive(chart) for title, chart in page_charts(evidence).items()}
    template = (resources.files("levelfield.reports") / "templates" / "report.html").read_text(
        encoding="utf-8"
    )
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        experiment=comparison.experiment,
        version=levelfield.__version__,
        methods=len(comparison.trained),
        leaky=comparison.leaky,
        warnings=warnings(comparison),
        split=comparison.split,
        groups=[(setting, len(comparison.metrics)) for setting in reversed(SETTINGS)],
        heads=[_tables.metric_name(metric) for _, metric in _tables.columns(comparison)],
        rows=_tables.table_rows(comparison, evidence.leaders),
        findings=_findings(evidence),
        beside=beside_tables(beside_published(evidence, metrics=_shown_beside(evidence))),
        baseline=comparison.baseline,
        figures=[
            (title, _html(figure, first=index == 0)) for index, (title, figure) in enumerate(figures.items())
        ],
        selections=_selections(comparison),
        ledger=comparison.ledger,
        revisions=_revisions(comparison),
        yaml=yaml.safe_dump(comparison.experiment, sort_keys=False),
    )


def _findings(evidence: Evidence) -> dict[str, Any]:
    """The sentences: what is known of the best first, then all other pairs."""
    best = next(iter(ranked(evidence.confirmations, evidence.setting, evidence.metric)), None)
    about_best = [finding for finding in evidence.findings if finding.first == best]
    others = [finding for finding in evidence.findings if finding.first != best]
    return {
        "what": f"{evidence.setting} {_tables.metric_name(evidence.metric)}",
        "best": [(finding.verdict, finding.sentence) for finding in about_best],
        "others": [(finding.verdict, finding.sentence) for finding in others],
    }


def _shown_beside(evidence: Evidence) -> list[str]:
    """The measure of the selection, and the one that every paper prints."""
    wanted = dict.fromkeys((evidence.metric, "precision_at_1"))
    return [metric for metric in wanted if metric in evidence.comparison.metrics]


def warnings(comparison: Comparison) -> list[str]:
    """What a reader must know before trusting the table."""
    found = []
    trials = {result.method: len(result.trials) for result in comparison.trained}
    if len(set(trials.values())) > 1:
        budgets = ", ".join(f"{method} {count}" for method, count in trials.items())
        found.append(f"Unequal search budgets: {budgets} trials.")
    methods = [line["method"] for line in comparison.ledger if line["event"] == "opened"]
    for method in sorted(set(methods)):
        if methods.count(method) > 1:
            found.append(
                f"The test set was opened {methods.count(method)} times for {method}: "
                "its selection changed after a first look."
            )
    for result in comparison.results:
        if result.failed:
            found.append(f"{len(result.failed)} reruns of {result.method} failed: {result.failed[0]}.")
    return found


def _html(figure: Any, *, first: bool) -> str:
    return str(
        plotly.io.to_html(
            figure, full_html=False, include_plotlyjs=first, config={"displaylogo": False, "responsive": True}
        )
    )


def _selections(comparison: Comparison) -> list[dict[str, str]]:
    lines = []
    for result in comparison.trained:
        shown = ", ".join(
            f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in result.selection["hyperparameters"].items()
        )
        lines.append(
            {
                "method": result.method,
                "hyperparameters": shown or "none to search",
                "trial": str(result.selection["trial"] + 1),
                "score": f"{100 * result.selection['score']:.2f}",
                "epoch": _tables.mean_epoch(result),
            }
        )
    return lines


def _revisions(comparison: Comparison) -> list[str]:
    """What changed from one revision of the experiment file to the next; empty while there is only one."""
    lines = []
    for before, after in zip(comparison.revisions, comparison.revisions[1:], strict=False):
        changes = differences(before["experiment"], after["experiment"])
        lines.append(f"{after['time']}: " + "; ".join(changes))
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
