"""Static site from records: a leaderboard of many experiments, and a page per experiment and per method.

The files can be served by GitHub Pages. Scores have intervals, and each method lists the methods that are not
distinguishable from it: ranks alone would claim more than the records show.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import levelfield
from levelfield.analysis import (
    Analysis,
    Conclusion,
    Registration,
    analyze,
    conclude_experiment,
    read_registration,
)
from levelfield.core.errors import UsageError
from levelfield.core.files import write_text
from levelfield.reports import render_report
from levelfield.reports._result_notes import unjudged_columns
from levelfield.reports.pages import ASSETS, asset, page_resources
from levelfield.reports.table import TableCell, score_cell
from levelfield.reports.web._experiment_states import experiments_below
from levelfield.reports.web._html import environment

REMEDY = "free disk space or choose another -o"


@dataclass(frozen=True)
class LeaderboardRow:
    """Row of the leaderboard: one method in one experiment.

    Attributes:
        analysis: Analysis of the experiment.
        method: Name of the method.
        cells: Concatenated scores by metric.
        better_methods: Number of methods that were found better by the selection metric.
        undecided: Methods that are not distinguishable from it: undecided or equivalent.
    """

    analysis: Analysis
    method: str
    cells: dict[str, TableCell]
    better_methods: int
    undecided: tuple[str, ...]


@dataclass(frozen=True)
class MethodCard:
    """Description of a method.

    Attributes:
        name: Name of the method.
        paper: Paper of the loss.
        year: Year of publication.
        doc: Docstring of the loss.
        parts: Loss, miner, sampler and fixed hyperparameters.
        ranges: Search range of each hyperparameter, as text.
    """

    name: str
    paper: str = ""
    year: int | None = None
    doc: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    ranges: tuple[tuple[str, str], ...] = ()


def write_site(directory: str | Path, out: str | Path) -> Path:
    """Write the site of all experiments below ``directory`` into ``out``; return the path of its first page.

    Args:
        directory: Directory of experiments, such as ``results/``.
        out: Output directory; existing files are replaced.

    Raises:
        UsageError: There is no experiment below ``directory``.
    """
    roots = list(experiments_below(Path(directory)))
    if not roots:
        raise UsageError(f"{directory} has no experiments; give a directory of experiment directories")
    out = Path(out)
    analyzed = [analyze(root) for root in roots]
    names = page_names(
        [str(root.relative_to(directory)) if root != Path(directory) else root.name for root in roots]
    )
    rows = [row for analysis in analyzed for row in build_leaderboard_rows(analysis)]
    methods = list(dict.fromkeys(row.method for row in rows))
    cards = {method: method_card(method, analyzed) for method in methods}
    method_pages = dict(zip(methods, page_names(methods), strict=True))
    experiment_pages = {str(analysis.root): name for analysis, name in zip(analyzed, names, strict=True)}
    for name in ASSETS:
        _write(out / "assets" / name, asset(name))
    for analysis, name in zip(analyzed, names, strict=True):
        _write(
            out / "experiments" / f"{name}.html",
            render_report(analysis, assets="../assets/", home="../index.html"),
        )
    common = {"experiments": experiment_pages, "pages": method_pages, "version": levelfield.__version__}
    for method, card in cards.items():
        own = [row for row in rows if row.method == method]
        page = _page("site_method.html", "../", card=card, rows=own, metrics=metric_labels(own), **common)
        _write(out / "methods" / f"{method_pages[method]}.html", page)
    first = out / "index.html"
    page = _page(
        "site_index.html",
        "",
        rows=rows,
        cards=cards,
        datasets=_by_dataset(analyzed, rows),
        count=len(analyzed),
        **common,
    )
    _write(first, page)
    _write(out / ".nojekyll", "")
    return first


def _write(file: Path, text: str) -> None:
    write_text(file, text, remedy=REMEDY)


def _page(template: str, up: str, **values: object) -> str:
    """Return a page of the site; ``up`` is the relative URL of the root of the site."""
    return (
        environment().get_template(template).render(resources=page_resources(f"{up}assets/"), up=up, **values)
    )


def build_leaderboard_rows(analysis: Analysis) -> list[LeaderboardRow]:
    """Return a row for each method of an experiment, including the baseline, best mean first."""
    comparison = analysis.comparison
    better: dict[str, int] = dict.fromkeys(analysis.means, 0)
    undecided: dict[str, list[str]] = {method: [] for method in analysis.means}
    for pair in analysis.pairs:
        match pair.verdict:
            case "better":
                better[pair.second] += 1
            case "worse":
                better[pair.first] += 1
            case "undecided" | "equivalent":
                undecided[pair.first].append(pair.second)
                undecided[pair.second].append(pair.first)
    leaders = analysis.leaders
    found = []
    for method in analysis.means:
        cells = {
            metric: score_cell(
                analysis.interval(method, "concatenated", metric),
                comparison.metric_infos[metric],
                "alike" if method in leaders["concatenated", metric] else "",
            )
            for metric in comparison.metrics
        }
        found.append(LeaderboardRow(analysis, method, cells, better[method], tuple(undecided[method])))
    return found


def metric_labels(rows: Iterable[LeaderboardRow]) -> dict[str, str]:
    """Return the labels of all metrics by name, the selection metric first."""
    found: dict[str, str] = {}
    for row in rows:
        comparison = row.analysis.comparison
        for metric in (comparison.main_metric, *comparison.metrics):
            found.setdefault(metric, comparison.metric_infos[metric].label)
    return found


@dataclass(frozen=True)
class LeaderboardTable:
    """Experiment on the leaderboard.

    Attributes:
        analysis: Analysis of the experiment.
        conclusion: Conclusion of the experiment.
        length: Length of training as text; two experiments may differ in it alone.
        metrics: Labels of the metrics by name, the selection metric first.
        rows: A row per method, best mean first.
        registration: Plan that it was run by, and departures from the plan.
        contributed: True if it is in a directory ``contributed``, where archives of others are.
        unjudged: Columns without intervals, and why; "" if there are none.
    """

    analysis: Analysis
    conclusion: Conclusion
    length: str
    metrics: dict[str, str]
    rows: list[LeaderboardRow]
    registration: Registration
    contributed: bool
    unjudged: str


def _by_dataset(
    analyzed: Sequence[Analysis], rows: Sequence[LeaderboardRow]
) -> dict[str, list[LeaderboardTable]]:
    """Return the tables of the leaderboard by dataset."""
    found: dict[str, list[LeaderboardTable]] = {}
    for analysis in analyzed:
        experiment = analysis.comparison.experiment
        own = [row for row in rows if row.analysis is analysis]
        training = experiment.training
        steps = training.max_epochs * (training.iterations_per_epoch or 0)
        length = f"{steps:,} steps" if steps else f"{training.max_epochs} epochs"
        table = LeaderboardTable(
            analysis,
            conclude_experiment(analysis),
            length,
            metric_labels(own),
            own,
            read_registration(analysis.root),
            analysis.root.parent.name == "contributed",
            unjudged_columns(analysis, settings=("concatenated",)),
        )
        found.setdefault(experiment.dataset.name, []).append(table)
    return dict(sorted(found.items()))


def method_card(method: str, analyzed: Sequence[Analysis]) -> MethodCard:
    """Return the description of a method, as the first experiment with it configures it."""
    from levelfield import losses, methods
    from levelfield.analysis import published
    from levelfield.core.space import describe_range

    specs = [
        spec
        for analysis in analyzed
        for spec in analysis.comparison.experiment.methods
        if spec.name == method
    ]
    year = published.years().get(method, ("", None))[1]
    if not specs:
        return MethodCard(method, doc="The network before training.")
    try:
        recipe = methods.resolve_method(specs[0])
        entry = losses.registry[recipe.loss]
    except UsageError:  # the plug-in is not loaded
        return MethodCard(method, year=year)
    parts = [("loss", recipe.loss), ("miner", recipe.miner or "all tuples"), ("sampler", recipe.sampler)]
    parts += [("fixed", f"{name} = {value}") for name, value in recipe.fixed.items()]
    ranges = tuple((name, describe_range(dimension)) for name, dimension in recipe.space.items())
    doc = (inspect.getdoc(entry.target) or "").partition("\n\nExample:")[0]
    if not any(
        name.startswith("regularizer.") for name in recipe.fixed
    ):  # the year of the loss is not that of the method
        year = year or entry.card.year
    return MethodCard(method, entry.card.paper, year, doc, tuple(parts), ranges)


def page_names(names: Sequence[str]) -> list[str]:
    """Return distinct file names for pages; special characters are replaced and a hash is added.

    Example:
        >>> page_names(["triplet", "../x", "Triplet"])
        ['triplet', 'x-d6b96a97', 'Triplet-217139c7']
    """
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
        if plain != name or plain.lower() in (other.lower() for other in found):
            plain = f"{plain[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}".lstrip("-")
        found.append(plain)
    return found
