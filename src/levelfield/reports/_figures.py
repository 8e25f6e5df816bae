"""The figures of an experiment: those of the page, and all of them as files."""

from __future__ import annotations

from pathlib import Path

from levelfield.compare import Evidence
from levelfield.records import Store
from levelfield.reports.figures import Chart, charts_of, write_chart


def page_charts(evidence: Evidence) -> dict[str, Chart]:
    """What the report shows, by heading."""
    from levelfield.reports.figures import experiment, search

    found: dict[str, Chart | None] = {
        "Scores": experiment.scores(evidence),
        "Learning curves": experiment.learning_curves(evidence),
        "Search history": search.search_history(evidence),
    }
    return {title: chart for title, chart in found.items() if chart is not None}


def write_figures(evidence: Evidence, folder: Path | None = None) -> list[Path]:
    """Write every registered figure as ``NAME.png`` and ``NAME.html``; ``report/figures/`` by default."""
    folder = folder or Store(evidence.root).report_folder / "figures"
    charts = charts_of(evidence)
    return [path for name, chart in charts.items() for path in write_chart(chart, folder, name)]
