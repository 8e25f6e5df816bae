"""Every figure of an experiment, by name, and written as PNG and as an interactive page."""

from __future__ import annotations

from pathlib import Path

from levelfield.protocol import searched_space
from levelfield.records import Store, write_text
from levelfield.reports._evidence import Evidence
from levelfield.reports._tables import metric_name
from levelfield.reports.figures import experiment, search
from levelfield.reports.figures._interactive import Chart, interactive


def page_charts(evidence: Evidence) -> dict[str, Chart]:
    """What the report shows, by heading."""
    comparison = evidence.comparison
    metric = metric_name(comparison.experiment["training"]["metric"])
    searches = {result.method: result.trials for result in comparison.trained}
    found: dict[str, Chart | None] = {
        "Scores": experiment.scores(comparison),
        "Learning curves": experiment.learning_curves(evidence),
        "Search history": search.history(searches, metric=metric),
    }
    return {title: chart for title, chart in found.items() if chart is not None}


def all_charts(evidence: Evidence) -> dict[str, Chart]:
    """Every chart that the records allow, by file name."""
    comparison = evidence.comparison
    metric = metric_name(comparison.experiment["training"]["metric"])
    found: dict[str, Chart | None] = {
        "scores": experiment.scores(comparison),
        "learning-curves": experiment.learning_curves(evidence),
        "metric-correlation": experiment.metric_correlation(evidence),
        "spectra": experiment.spectra(evidence),
        "search-history": page_charts(evidence)["Search history"],
    }
    specs = {spec["name"]: spec for spec in comparison.experiment["methods"]}
    for result in comparison.trained:
        space = searched_space(specs[result.method], result.trials)
        if not space or not search.complete(result.trials):
            continue
        name, trials = result.method, result.trials
        found |= {
            f"{name}-history": search.history({name: trials}, metric=metric),
            f"{name}-slice": search.slices(name, trials, space, metric=metric),
            f"{name}-contour": search.contour(name, trials, space, metric=metric),
            f"{name}-importance": search.importances(name, trials, space),
        }
    return {name: chart for name, chart in found.items() if chart is not None}


def write_figures(evidence: Evidence, folder: Path | None = None) -> list[Path]:
    """Write every chart as ``NAME.png`` and ``NAME.html``; ``report/figures/`` by default.

    The pages share one copy of plotly's script beside them and load nothing from elsewhere.
    """
    from plotly.offline import get_plotlyjs

    from levelfield.reports.figures._still import still
    from levelfield.reports.figures.published_draw import write_png

    folder = folder or Store(evidence.root).report_folder / "figures"
    script = folder / "plotly.min.js"
    write_text(script, get_plotlyjs())
    written = [script]
    for name, chart in all_charts(evidence).items():
        png, html = folder / f"{name}.png", folder / f"{name}.html"
        write_png(still(chart), png)
        write_text(html, interactive(chart).to_html(include_plotlyjs="directory"))
        written += [png, html]
    return written
