"""The figures of an experiment: those of the page, and all of them as files."""

from __future__ import annotations

from pathlib import Path

from levelfield.compare import Evidence
from levelfield.records import Store
from levelfield.reports.figures import Chart, charts_of, write_chart


def page_charts(evidence: Evidence) -> list[Chart]:
    """What the report shows first."""
    from levelfield.reports.figures import experiment, search

    found = (
        experiment.scores(evidence),
        experiment.learning_curves(evidence),
        search.search_history(evidence),
    )
    return [chart for chart in found if chart is not None]


def structure_charts(evidence: Evidence) -> list[Chart]:
    """How measures go together, and how the embeddings fill their space."""
    from levelfield.reports.figures import experiment

    found = (
        experiment.metric_correlation(evidence),
        experiment.spectra(evidence),
        experiment.rho_against_score(evidence),
    )
    return [chart for chart in found if chart is not None]


def search_charts(evidence: Evidence) -> dict[str, list[Chart]]:
    """Importance and slices of each method whose search allows them."""
    from levelfield.reports.figures import search

    charts: dict[str, list[Chart]] = {}
    for result in evidence.comparison.trained:
        found = (search.method_importance(evidence, result), search.method_slices(evidence, result))
        charts[result.method] = [chart for chart in found if chart is not None]
    return {method: found for method, found in charts.items() if found}


def write_figures(evidence: Evidence, folder: Path | None = None) -> list[Path]:
    """Write every registered figure as ``NAME.png`` and ``NAME.html``; ``report/figures/`` by default."""
    folder = folder or Store(evidence.root).report_folder / "figures"
    charts = charts_of(evidence)
    return [path for name, chart in charts.items() for path in write_chart(chart, folder, name)]
