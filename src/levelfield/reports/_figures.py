"""The figures of an experiment: those of the page, and all of them as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.compare import Evidence
from levelfield.records import Store
from levelfield.reports.figures import Chart, charts_of, write_chart, write_png, write_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def differences_diagram(evidence: Evidence) -> Figure | None:
    """The methods by their means, and a bar over those of whom no two were found different; None of two."""
    from matplotlib.ticker import MaxNLocator

    from levelfield.stats import group_diagram

    measure = evidence.measure
    places = {method: measure.scale * mean for method, mean in evidence.means.items()}
    if len(places) < 3:
        return None
    values = list(places.values())
    ticks = MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(min(values), max(values))
    digits = 2 if measure.unit == "percent" else 4
    return group_diagram(
        places,
        evidence.groups,
        ends=(values[0], values[-1]),
        ticks={float(tick): f"{tick:g}" for tick in ticks if min(values) <= tick <= max(values)},
        title=f"Mean {evidence.setting} {measure.axis}; a bar: no two of them were found different",
        digits=digits,
    )


def write_figures(evidence: Evidence, folder: Path | None = None) -> list[Path]:
    """Write every registered figure as ``NAME.png`` and ``NAME.html``; ``report/figures/`` by default.

    The diagram of differences is ``differences.png`` and ``differences.svg``.
    """
    folder = folder or Store(evidence.root).report_folder / "figures"
    charts = charts_of(evidence)
    written = [path for name, chart in charts.items() for path in write_chart(chart, folder, name)]
    diagram = differences_diagram(evidence)
    if diagram is not None:
        written += [folder / "differences.png", folder / "differences.svg"]
        write_png(diagram, written[-2])
        write_svg(diagram, written[-1])
    return written
