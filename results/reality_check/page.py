"""Write docs/reality-check.md and its images from the records in results/: ``make reality-check``.

    python results/reality_check/page.py [--results results] [--docs docs] [--readme README.md]

The text is in ``reality-check.md.j2``. Every number and image comes from records. The README quotes the first
paragraph of the page between two marks.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from arenas import Arena, below, load, luck_of_search, papers, years
from figures import across, standings, verdicts
from levelfield.analysis import analyze, compare_experiments
from levelfield.records import write_text
from levelfield.reports import Table
from levelfield.reports.figures.files import write_png, write_svg
from levelfield.reports.figures.rank_diagram import critical_difference_diagram
from levelfield.reports.table import TableCell, score_cell
from levelfield.stats import rank_agreement
from repeats import Earlier, repeated

HERE = Path(__file__).parent
METRICS = ("precision_at_1", "r_precision", "map_at_r")
ERROR_RATES = HERE.parent.parent / "benchmarks" / "statistics" / "error_rates.json"
WORLDS = {"cub": "fitted to CUB", "cars": "fitted to Cars196", "worst": "20% bad, 8 own deviations"}
MARKS = ("<!-- reality check: written by `make reality-check` -->\n", "<!-- end of reality check -->\n")


def main_table(arena: Arena) -> str:
    """Return the main table: one row per method, best first; bold if no method was found better."""
    published_in, comparison = years(arena), arena.analysis.comparison
    infos = comparison.metric_infos
    rows: list[list[Any]] = []
    for method in [*arena.methods, arena.baseline]:
        cells = [
            score_cell(arena.analysis.interval(method, setting, metric), infos[metric])
            for setting, metric in (
                ("concatenated", "map_at_r"),
                ("separated", "map_at_r"),
                ("concatenated", "precision_at_1"),
                ("separated", "precision_at_1"),
            )
        ]
        name = f"**{method}**" if method in arena.leaders else method
        year = published_in.get(method)
        rows.append([name, "" if year is None else str(year), *cells, TableCell(_behind(arena, method))])
    heads = ["method", "year", "MAP@R", "one model", "P@1", "one model", "behind the best mean"]
    return Table.from_rows(heads, rows).markdown()


def _behind(arena: Arena, method: str) -> str:
    if method == arena.methods[0]:
        return ""
    pair = arena.behind_best(method)
    return f"{100 * pair.difference:.2f} ({100 * pair.low:.2f} to {100 * pair.high:.2f})"


def facts(results: Path) -> dict[str, Any]:
    """Return the values of the template."""
    arenas = load(results)
    frozen = [arena for arena in arenas.values() if arena.mode == "frozen"]
    tail = [arena for arena in arenas.values() if arena.mode == "tail"]
    unbeaten = [m for m in _order(frozen) if all(m in arena.leaders for arena in frozen)]
    feedback = results / "studies" / "test-feedback.json"
    return {
        "arenas": arenas,
        "frozen": frozen,
        "tail": tail,
        "below": {arena.name: below(arena, frozen) for arena in tail},
        "earlier": {
            name: Earlier.read(file)
            for name in arenas
            if (file := results / "studies" / f"{name}-earlier.json").exists()
        },
        "longer": _longer(results / "cub200-tail-longer", frozen),
        "unbeaten": unbeaten,
        "behind": {m: most for m in unbeaten if (most := max(a.at_most_behind(m) for a in frozen))},
        "tables": {name: main_table(arena) for name, arena in arenas.items()},
        "luck": {name: luck_of_search(arena) for name, arena in arenas.items()},
        "repeated": [
            repeated(one, other)
            for one, other in combinations(arenas.values(), 2)
            if one.mode == other.mode or one.dataset == other.dataset
        ],
        "papers": {name: papers(arena).agreements(arena) for name, arena in arenas.items()},
        "beside": {arena.name: beside_papers(arena) for arena in frozen},
        "orders": {name: _metric_orders(arena) for name, arena in arenas.items()},
        "structure": structure(results / "studies", frozen),
        "error_rates": error_rates(),
        "feedback": json.loads(feedback.read_text(encoding="utf-8")) if feedback.exists() else None,
        "plans": plans(results / "studies"),
        "sweeps": sweeps(results / "studies" / "sweep.csv"),
    }


def error_rates() -> dict[str, str]:
    """Return the measured rates of false alarms in records like these, and in the worst world tried."""
    found = json.loads(ERROR_RATES.read_text(encoding="utf-8"))["null"]
    return {name: f"{found[world]['alarms'] / found[world]['sims']:.1%}" for name, world in WORLDS.items()}


def _longer(directory: Path, frozen: list[Arena]) -> dict[str, Any] | None:
    """Return arena B with more steps; None if it was not run."""
    if not directory.exists():
        return None
    arena = Arena(analyze(directory))
    return {"arena": arena, "below": below(arena, frozen)}


def _order(arenas: list[Arena]) -> list[str]:
    """Return the methods that all arenas have, best first in the first of them."""
    return [m for m in arenas[0].methods if all(m in arena.methods for arena in arenas)] if arenas else []


def beside_papers(arena: Arena) -> str:
    """Return a table of Precision@1: papers' claims, check of 2020, ours; empty if none is known."""
    known, ours, published_in = papers(arena), arena.scores("separated", "precision_at_1"), years(arena)
    rows = [
        [method, str(published_in[method]), *(_percent(each) for each in found), f"{100 * ours[method]:.1f}"]
        for method in sorted(arena.methods, key=lambda name: published_in[name])
        if any(found := (known.claimed.get(method), known.checked.get(method)))
    ]
    heads = ["method", "year", "claimed in papers", "reality check of 2020", "here"]
    return Table.from_rows(heads, rows).markdown() if rows else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def plans(studies: Path) -> list[dict[str, Any]]:
    """Return the output of ``levelfield plan --json`` for experiments that were not run here."""
    return [
        {"experiment": file.stem.removeprefix("plan-")} | json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(studies.glob("plan-*.json"))
    ]


@dataclass(frozen=True)
class Sweep:
    """MAP@R of one model over the values of one factor, in percent.

    Attributes:
        table: One row per value, one column per method.
        within: Best minus worst score over the values, per method.
        between: Best minus worst score over the methods, per value.
    """

    table: str
    within: list[float]
    between: list[float]


def sweeps(file: Path) -> list[Sweep]:
    """Return one sweep per factor; empty if the file does not exist."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["metric"] == "map_at_r"]
    factors = dict.fromkeys(row["factor"] for row in rows)
    return [_sweep(factor, [row for row in rows if row["factor"] == factor]) for factor in factors]


def _sweep(factor: str, rows: list[dict[str, str]]) -> Sweep:
    values, methods = (list(dict.fromkeys(row[key] for row in rows)) for key in ("value", "method"))
    means = {(row["value"], row["method"]): 100 * float(row["mean"]) for row in rows}
    half = {(row["value"], row["method"]): 100 * float(row["half_width_95"] or "nan") for row in rows}
    body = [[v, *(f"{means[v, m]:.2f} ± {half[v, m]:.2f}" for m in methods)] for v in values]
    return Sweep(
        table=Table.from_rows([factor, *methods], body).markdown(),
        within=[_spread([means[value, method] for value in values]) for method in methods],
        between=[_spread([means[value, method] for method in methods]) for value in values],
    )


def _spread(values: list[float]) -> float:
    return max(values) - min(values)


def _metric_orders(arena: Arena) -> dict[str, Any]:
    """Return the agreement of other metrics with MAP@R on the order of the methods."""
    reference = arena.scores("concatenated", "map_at_r")
    return {
        arena.analysis.comparison.metric_infos[metric].label: rank_agreement(
            reference, arena.scores("concatenated", metric)
        )
        for metric in METRICS[:2]
    }


def structure(studies: Path, arenas: list[Arena]) -> dict[str, dict[str, list[Any]]]:
    """Return the agreement of structure metrics with P@1 and MAP@R, by structure metric and dataset."""
    found: dict[str, dict[str, list[Any]]] = {}
    for arena in arenas:
        file = studies / f"structure-{arena.name}.json"
        if not file.exists():
            continue
        by_method = json.loads(file.read_text(encoding="utf-8"))
        for name in next(iter(by_method.values())):
            values = {method: by_method[method][name] for method in arena.methods}
            found.setdefault(name, {})[arena.dataset] = [
                rank_agreement(values, arena.scores("separated", metric))
                for metric in ("precision_at_1", "map_at_r")
            ]
    return found


def write_images(found: dict[str, Any], images: Path) -> None:
    """Write the images of the page."""
    images.mkdir(parents=True, exist_ok=True)
    for mode in ("frozen", "tail"):
        arenas = found[mode]
        if arenas:
            write_png(standings(arenas), images / f"reality-check-{mode}.png")
            write_png(verdicts(arenas), images / f"reality-check-{mode}-verdicts.png")
    if len(found["frozen"]) == 2:
        write_png(across(*found["frozen"]), images / "reality-check-across.png")
    test = compare_experiments([arena.analysis for arena in found["frozen"]]).test
    if test is not None:
        write_svg(critical_difference_diagram(test), images / "reality-check-ranks.svg")


def quote(readme: Path, paragraph: str) -> None:
    """Write the first paragraph of the page to the README, between its marks."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise SystemExit(f"{readme} lacks the lines {MARKS[0].strip()} and {MARKS[1].strip()}; add them")
    write_text(readme, before + begin + paragraph.strip() + "\n" + end + after)


def main() -> None:
    """Read the command line and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE.parent)
    parser.add_argument("--docs", type=Path, default=HERE.parent.parent / "docs")
    parser.add_argument("--readme", type=Path, default=HERE.parent.parent / "README.md")
    options = parser.parse_args()
    found = facts(options.results)
    if not found["arenas"]:
        raise SystemExit(f"{options.results} has no arena; archive experiments named DATASET-frozen there")
    write_images(found, options.docs / "images")
    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    write_text(
        options.docs / "reality-check.md", environment.get_template("reality-check.md.j2").render(**found)
    )
    quote(options.readme, environment.get_template("abstract.md.j2").render(**found))
    print(f"{options.docs / 'reality-check.md'}: {len(found['arenas'])} arenas")


if __name__ == "__main__":
    main()
