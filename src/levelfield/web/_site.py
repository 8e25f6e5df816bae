"""A site from records: a leaderboard over many experiments, a page for each experiment and each method.

Static files; what can be put on GitHub Pages. A score stands with its interval, and a method with those that
it cannot be told apart from: ranks alone would claim more than the records hold.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import levelfield
from levelfield.compare import Evidence, weigh
from levelfield.errors import UsageError
from levelfield.files import write_text
from levelfield.reports import render_report
from levelfield.reports.pages import ASSETS, asset, page_resources
from levelfield.reports.table import Cell, score
from levelfield.web._folder import experiments_below
from levelfield.web._views import environment

REMEDY = "make room or choose another -o"


@dataclass(frozen=True)
class Standing:
    """One method in one experiment.

    Attributes:
        evidence: The experiment.
        method: Its name.
        cells: Its scores, concatenated, by metric.
        worse_than: How many methods were found better, by the metric of the selection.
        alike: The trained methods it cannot be told apart from.
    """

    evidence: Evidence
    method: str
    cells: dict[str, Cell]
    worse_than: int
    alike: tuple[str, ...]


@dataclass(frozen=True)
class MethodCard:
    """What is known of a method besides its results.

    Attributes:
        name: Its name.
        paper: Where it comes from.
        year: When.
        doc: What it computes, in the words of its code.
        parts: Loss, miner, sampler, and what is set to a value of its own.
        ranges: What is searched, in words.
    """

    name: str
    paper: str = ""
    year: int | None = None
    doc: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    ranges: tuple[tuple[str, str], ...] = ()


def write_site(folder: str | Path, out: str | Path) -> Path:
    """Write the site of all experiments below ``folder`` into ``out``; returns the first page.

    Args:
        folder: Where experiments lie, such as ``results/``.
        out: Where the site goes; files of an earlier one are replaced.
    """
    roots = list(experiments_below(Path(folder)))
    if not roots:
        raise UsageError(
            f"{folder} holds no experiment; give a folder of folders that `levelfield run` wrote"
        )
    out = Path(out)
    evidences = [weigh(root) for root in roots]
    names = page_names(
        [str(root.relative_to(folder)) if root != Path(folder) else root.name for root in roots]
    )
    standings = [standing for evidence in evidences for standing in standings_of(evidence)]
    methods = list(dict.fromkeys(standing.method for standing in standings))
    cards = {method: method_card(method, evidences) for method in methods}
    method_pages = dict(zip(methods, page_names(methods), strict=True))
    experiment_pages = {str(evidence.root): name for evidence, name in zip(evidences, names, strict=True)}
    for name in ASSETS:
        _write(out / "assets" / name, asset(name))
    for evidence, name in zip(evidences, names, strict=True):
        _write(
            out / "experiments" / f"{name}.html",
            render_report(evidence, assets="../assets/", home="../index.html"),
        )
    common = {"experiments": experiment_pages, "pages": method_pages, "version": levelfield.__version__}
    for method, card in cards.items():
        own = [standing for standing in standings if standing.method == method]
        page = _page("site_method.html", "../", card=card, standings=own, metrics=metrics_of(own), **common)
        _write(out / "methods" / f"{method_pages[method]}.html", page)
    first = out / "index.html"
    page = _page(
        "site_index.html",
        "",
        standings=standings,
        cards=cards,
        metrics=metrics_of(standings),
        choices=_choices(standings, cards),
        count=len(evidences),
        **common,
    )
    _write(first, page)
    _write(out / ".nojekyll", "")
    return first


def _write(file: Path, text: str) -> None:
    write_text(file, text, remedy=REMEDY)


def _page(template: str, up: str, **values: object) -> str:
    """A page of the site; ``up`` leads from it to the site's root."""
    return (
        environment().get_template(template).render(resources=page_resources(f"{up}assets/"), up=up, **values)
    )


def standings_of(evidence: Evidence) -> list[Standing]:
    """Every method of an experiment, best mean first, the baseline among them."""
    comparison = evidence.comparison
    results = {result.method: result for result in comparison.results}
    better: dict[str, int] = dict.fromkeys(evidence.means, 0)
    alike: dict[str, list[str]] = {method: [] for method in evidence.means}
    for finding in evidence.findings:
        match finding.verdict:
            case "better":
                better[finding.second] += 1
            case "worse":
                better[finding.first] += 1
            case "undecided" | "equivalent":
                alike[finding.first].append(finding.second)
                alike[finding.second].append(finding.first)
    leaders = evidence.leaders
    found = []
    for method in evidence.means:
        cells = {
            metric: score(
                results[method].interval("concatenated", metric),
                comparison.measures[metric],
                "alike" if method in leaders["concatenated", metric] else "",
            )
            for metric in comparison.metrics
        }
        found.append(Standing(evidence, method, cells, better[method], tuple(alike[method])))
    return found


def metrics_of(standings: Iterable[Standing]) -> dict[str, str]:
    """The labels of all metrics that occur, by name; that of the selection first."""
    found: dict[str, str] = {}
    for standing in standings:
        comparison = standing.evidence.comparison
        for metric in (comparison.main_metric, *comparison.metrics):
            found.setdefault(metric, comparison.measures[metric].label)
    return found


def _choices(standings: Sequence[Standing], cards: dict[str, MethodCard]) -> dict[str, list[str]]:
    """What the leaderboard can be filtered by."""
    experiments = [standing.evidence.comparison.experiment for standing in standings]
    years = {str(card.year) for card in cards.values() if card.year}
    return {
        "dataset": sorted({experiment.dataset.name for experiment in experiments}),
        "trunk": sorted({experiment.trunk.name for experiment in experiments}),
        "mode": sorted({experiment.trunk.mode for experiment in experiments}),
        "year": sorted(years),
    }


def method_card(method: str, evidences: Sequence[Evidence]) -> MethodCard:
    """The card of a method as the first experiment that has it put it together."""
    from levelfield import losses, methods, published
    from levelfield.space import describe

    specs = [
        spec
        for evidence in evidences
        for spec in evidence.comparison.experiment.methods
        if spec.name == method
    ]
    year = published.years().get(method, ("", None))[1]
    if not specs:
        return MethodCard(method, doc="The network before training.")
    try:
        recipe = methods.resolve(specs[0])
        entry = losses.registry[recipe.loss]
    except UsageError:  # a plug-in that is not loaded here
        return MethodCard(method, year=year)
    parts = [("loss", recipe.loss), ("miner", recipe.miner or "all tuples"), ("batches", recipe.sampler)]
    parts += [("set", f"{name} = {value}") for name, value in recipe.fixed.items()]
    ranges = tuple((name, describe(dimension)) for name, dimension in recipe.space.items())
    doc = (inspect.getdoc(entry.target) or "").partition("\n\nExample:")[0]
    if not any(name.startswith("regulariser.") for name in recipe.fixed):  # a later paper's idea
        year = year or entry.card.year
    return MethodCard(method, entry.card.paper, year, doc, tuple(parts), ranges)


def page_names(names: Sequence[str]) -> list[str]:
    """File names for pages, one each; whatever is no plain letter is replaced, and a hash keeps them apart.

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
