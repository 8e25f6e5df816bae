"""Write docs/reality-check.md and its pictures from the records in results/: ``make reality-check``.

    python tools/reality_check/page.py [--results results] [--docs docs] [--readme README.md]

The words are in ``reality-check.md.j2``; every number and picture comes from records. The README quotes the
page's first paragraph, between two marks.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from arenas import Arena, below, load, luck_of_search, papers, years
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pictures import across, standings, verdicts
from repeats import Earlier, repeated

from levelfield.compare import compare_across, weigh
from levelfield.records import write_text
from levelfield.reports import Table
from levelfield.reports.figures.files import write_png, write_svg
from levelfield.reports.table import Cell, score
from levelfield.stats import critical_difference_diagram, rank_agreement

HERE = Path(__file__).parent
METRICS = ("precision_at_1", "r_precision", "map_at_r")
MARKS = ("<!-- reality check: written by `make reality-check` -->\n", "<!-- end of reality check -->\n")


def main_table(arena: Arena) -> str:
    """A row per method, best first; bold: none was found better."""
    published_in, comparison = years(arena), arena.evidence.comparison
    results = {result.method: result for result in comparison.results}
    measures = comparison.measures
    rows = []
    for method in [*arena.methods, arena.baseline]:
        result = results[method]
        cells = [
            score(result.interval(setting, metric), measures[metric])
            for setting, metric in (
                ("concatenated", "map_at_r"),
                ("separated", "map_at_r"),
                ("concatenated", "precision_at_1"),
                ("separated", "precision_at_1"),
            )
        ]
        name = f"**{method}**" if method in arena.leaders else method
        year = published_in.get(method)
        rows.append([name, "" if year is None else str(year), *cells, Cell(_behind(arena, method))])
    heads = ["method", "year", "MAP@R", "one model", "P@1", "one model", "behind the best mean"]
    return Table.of(heads, rows).markdown()


def _behind(arena: Arena, method: str) -> str:
    if method == arena.methods[0]:
        return ""
    pair = arena.behind_best(method)
    return f"{100 * pair.difference:.2f} ({100 * pair.low:.2f} to {100 * pair.high:.2f})"


def facts(results: Path) -> dict[str, Any]:
    """Everything that the page's words need."""
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
        "measures": {name: _measures(arena) for name, arena in arenas.items()},
        "structure": structure(results / "studies", frozen),
        "feedback": json.loads(feedback.read_text(encoding="utf-8")) if feedback.exists() else None,
        "plans": plans(results / "studies"),
        "sweeps": sweeps(results / "studies" / "sweep.csv"),
    }


def _longer(folder: Path, frozen: list[Arena]) -> dict[str, Any] | None:
    """What more steps of arena B come to, where that was tried."""
    if not folder.exists():
        return None
    arena = Arena(weigh(folder))
    return {"arena": arena, "below": below(arena, frozen)}


def _order(arenas: list[Arena]) -> list[str]:
    """The methods that all arenas have, best first in the first of them."""
    return [m for m in arenas[0].methods if all(m in arena.methods for arena in arenas)] if arenas else []


def beside_papers(arena: Arena) -> str:
    """Precision@1 as papers claim it, as the check of 2020 found it, and ours; empty if none is known."""
    known, ours, published_in = papers(arena), arena.scores("separated", "precision_at_1"), years(arena)
    rows = [
        [method, str(published_in[method]), *(_percent(each) for each in found), f"{100 * ours[method]:.1f}"]
        for method in sorted(arena.methods, key=lambda name: published_in[name])
        if any(found := (known.claimed.get(method), known.checked.get(method)))
    ]
    heads = ["method", "year", "claimed in papers", "reality check of 2020", "here"]
    return Table.of(heads, rows).markdown() if rows else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def plans(studies: Path) -> list[dict[str, Any]]:
    """What ``levelfield plan --json`` said of experiments that nobody carried out here."""
    return [
        {"experiment": file.stem.removeprefix("plan-")} | json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(studies.glob("plan-*.json"))
    ]


@dataclass(frozen=True)
class Sweep:
    """MAP@R of one model over the values of one factor, in percent.

    Attributes:
        table: A row per value, a column per method.
        within: How far the factor moves each method: its best value less its worst.
        between: How far apart the methods are at each value.
    """

    table: str
    within: list[float]
    between: list[float]


def sweeps(file: Path) -> list[Sweep]:
    """One per factor; none without a sweep."""
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
        table=Table.of([factor, *methods], body).markdown(),
        within=[_spread([means[value, method] for value in values]) for method in methods],
        between=[_spread([means[value, method] for method in methods]) for value in values],
    )


def _spread(values: list[float]) -> float:
    return max(values) - min(values)


def _measures(arena: Arena) -> dict[str, Any]:
    """Whether other measures order the methods as MAP@R does."""
    reference = arena.scores("concatenated", "map_at_r")
    return {
        arena.evidence.comparison.measures[metric].label: rank_agreement(
            reference, arena.scores("concatenated", metric)
        )
        for metric in METRICS[:2]
    }


def structure(studies: Path, arenas: list[Arena]) -> dict[str, dict[str, list[Any]]]:
    """Whether what structure.py measured goes with test scores: by measure, arena and metric."""
    found: dict[str, dict[str, list[Any]]] = {}
    for arena in arenas:
        file = studies / f"structure-{arena.name}.json"
        if not file.exists():
            continue
        by_method = json.loads(file.read_text(encoding="utf-8"))
        for measure in next(iter(by_method.values())):
            values = {method: by_method[method][measure] for method in arena.methods}
            found.setdefault(measure, {})[arena.dataset] = [
                rank_agreement(values, arena.scores("separated", metric))
                for metric in ("precision_at_1", "map_at_r")
            ]
    return found


def write_pictures(found: dict[str, Any], images: Path) -> None:
    """All pictures of the page."""
    images.mkdir(parents=True, exist_ok=True)
    for mode in ("frozen", "tail"):
        arenas = found[mode]
        if arenas:
            write_png(standings(arenas), images / f"reality-check-{mode}.png")
            write_png(verdicts(arenas), images / f"reality-check-{mode}-verdicts.png")
    if len(found["frozen"]) == 2:
        write_png(across(*found["frozen"]), images / "reality-check-across.png")
    test = compare_across([arena.evidence for arena in found["frozen"]]).test
    if test is not None:
        write_svg(critical_difference_diagram(test), images / "reality-check-ranks.svg")


def quote(readme: Path, paragraph: str) -> None:
    """Put the page's first paragraph into the README, between its marks."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise SystemExit(f"{readme} lacks the lines {MARKS[0].strip()} and {MARKS[1].strip()}; add them")
    write_text(readme, before + begin + paragraph.strip() + "\n" + end + after)


def main() -> None:
    """Read the command line and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE.parent.parent / "results")
    parser.add_argument("--docs", type=Path, default=HERE.parent.parent / "docs")
    parser.add_argument("--readme", type=Path, default=HERE.parent.parent / "README.md")
    options = parser.parse_args()
    found = facts(options.results)
    if not found["arenas"]:
        raise SystemExit(f"{options.results} holds no arena: archive experiments named DATASET-frozen there")
    write_pictures(found, options.docs / "images")
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
