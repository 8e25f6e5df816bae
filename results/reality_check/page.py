"""Write docs/reality-check.md, docs/which-loss.md and their images from results/: ``make reality-check``.

    python results/reality_check/page.py [--results results] [--docs docs] [--readme README.md]

The texts are the templates ``*.md.j2`` beside this file. Every number and image comes from records. The
README quotes the first paragraph of the page between two marks.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from arena_table import main_table
from arenas import Arena, below, load
from beside_papers import beside_table, papers, years
from choice import answers, effects
from dependence import Repeated, dependences, read_earlier
from figures import FACTOR_WORDS, agreements, by_year, overall, standing, verdicts
from levelfield.analysis import read_registration
from levelfield.records import write_text
from levelfield.reports.figures.files import write_png
from levelfield.stats import rank_agreement
from luck import luck_of_search
from overview import Overview, listed
from step_cost import read_step_cost
from sweeps import read_sweeps
from trend import trends

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
METRICS = ("precision_at_1", "r_precision")
ERROR_RATES = ROOT / "benchmarks" / "statistics" / "error_rates.json"
WORLDS = {"cub": "fitted to CUB", "cars": "fitted to Cars196", "worst": "20% bad, 8 own deviations"}
MARKS = ("<!-- reality check: written by `make reality-check` -->\n", "<!-- end of reality check -->\n")
MOST_WORDS = 80  # of the first paragraph


def facts(results: Path) -> dict[str, Any]:
    """Return the values of the templates."""
    arenas = load(results)
    main = [arena for arena in arenas.values() if not arena.variant]
    frozen = [arena for arena in main if arena.mode == "frozen"]
    if not frozen:
        raise SystemExit(f"{results} has no arena; archive an experiment there as DATASET-frozen")
    trained = [arena for arena in main if arena.mode != "frozen"]
    overview = Overview.of(frozen)
    studies = results / "studies"
    earlier = read_earlier(studies, arenas.values())
    cost = read_step_cost(studies / "step-cost.json")
    ratio = {} if cost is None else cost.ratio
    found, swept = dependences(arenas.values(), earlier), read_sweeps(studies / "sweep.csv")
    feedback = studies / "test-feedback.json"
    return {
        "arenas": list(arenas.values()),
        "frozen": frozen,
        "several": len(frozen) > 1,
        "trained": trained,
        "variants": [arena for arena in arenas.values() if arena.variant],
        "overview": overview,
        "overview_table": overview.table(ratio),
        "tables": {name: main_table(arena) for name, arena in arenas.items()},
        "below": {arena.name: below(arena, frozen) for arena in arenas.values() if arena.mode != "frozen"},
        "earlier": earlier,
        "dependences": found,
        "typical_tau": {
            factor: median(taus)
            for factor in FACTOR_WORDS
            if (taus := [each.agreement.tau for each in found if each.factor == factor])
        },
        "across": _across(found, frozen),
        "factor_words": FACTOR_WORDS,
        "trends": trends(overview, trained),
        "years": {method: year for arena in frozen for method, year in years(arena).items()},
        "cost": cost,
        "luck": {name: luck_of_search(arena) for name, arena in arenas.items()},
        "papers": {arena.title: papers(arena).agreements(arena) for arena in frozen},
        "beside": {arena.title: beside_table(arena) for arena in frozen},
        "orders": {arena.title: _metric_orders(arena) for arena in main},
        "structure": structure(studies, frozen),
        "registrations": {arena.title: read_registration(arena.analysis.root) for arena in arenas.values()},
        "error_rates": error_rates(),
        "feedback": json.loads(feedback.read_text(encoding="utf-8")) if feedback.exists() else None,
        "plans": plans(studies),
        "sweeps": swept,
        "answers": answers(overview, trained, ratio),
        "effects": effects(overview, trained, {s.title: (min(s.change), max(s.change)) for s in swept}),
    }


def _across(found: list[Repeated], frozen: list[Arena]) -> float | None:
    """Return the median agreement of two datasets on the frozen network; None with one dataset."""
    titles = {arena.title for arena in frozen}
    taus = [each.agreement.tau for each in found if {each.one.title, each.other.title} <= titles]
    return median(taus) if taus else None


def error_rates() -> dict[str, str]:
    """Return the measured rates of false alarms in records like these, and in the worst world tried."""
    found = json.loads(ERROR_RATES.read_text(encoding="utf-8"))["null"]
    return {name: f"{found[world]['alarms'] / found[world]['sims']:.1%}" for name, world in WORLDS.items()}


def plans(studies: Path) -> list[dict[str, Any]]:
    """Return the output of ``levelfield plan --json`` for experiments that were not run here."""
    return [
        {"experiment": file.stem.removeprefix("plan-")} | json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(studies.glob("plan-*.json"))
    ]


def _metric_orders(arena: Arena) -> dict[str, Any]:
    """Return the agreement of other metrics with MAP@R on the order of the methods."""
    reference = arena.scores("concatenated", "map_at_r")
    return {
        arena.analysis.comparison.metric_infos[metric].label: rank_agreement(
            reference, arena.scores("concatenated", metric)
        )
        for metric in METRICS
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
            values = {method: by_method[method][name] for method in arena.methods if method in by_method}
            found.setdefault(name, {})[arena.dataset] = [
                rank_agreement(values, arena.scores("separated", metric))
                for metric in ("precision_at_1", "map_at_r")
            ]
    return found


def write_images(found: dict[str, Any], images: Path) -> None:
    """Write the images of the pages; those of arenas that are gone are deleted."""
    images.mkdir(parents=True, exist_ok=True)
    for stale in images.glob("reality-check*.*"):
        stale.unlink()
    overview = found["overview"]
    write_png(overall(overview), images / "reality-check.png")
    for arena in found["arenas"]:
        write_png(standing(arena), images / f"reality-check-{arena.name}.png")
        write_png(verdicts(arena), images / f"reality-check-{arena.name}-pairs.png")
    if found["dependences"]:
        write_png(agreements(found["dependences"]), images / "reality-check-order.png")
    if found["trends"]:
        write_png(
            by_year(overview.above_average, found["years"], "points above the average"),
            images / "reality-check-years.png",
        )


def render(name: str, found: dict[str, Any]) -> str:
    """Return the text of a template."""
    environment = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["listed"] = listed
    environment.filters["least_to_most"] = lambda counts: f"{min(counts)} to {max(counts)}"
    return environment.get_template(name).render(**found)


def abstract(found: dict[str, Any]) -> str:
    """Return the first paragraph, wrapped; raise SystemExit if it is too long to quote."""
    words = render("abstract.md.j2", found).split()
    if len(words) > MOST_WORDS:
        raise SystemExit(
            f"the first paragraph has {len(words)} words, {MOST_WORDS} at most; shorten abstract.md.j2"
        )
    return textwrap.fill(" ".join(words), 120, break_long_words=False, break_on_hyphens=False)


def quote(readme: Path, paragraph: str) -> None:
    """Write the first paragraph of the page to the README, between its marks."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise SystemExit(f"{readme} lacks the lines {MARKS[0].strip()} and {MARKS[1].strip()}; add them")
    write_text(readme, before + begin + paragraph + "\n" + end + after)


def main() -> None:
    """Read the command line and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=HERE.parent)
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    options = parser.parse_args()
    found = facts(options.results)
    found["abstract"] = abstract(found)
    write_images(found, options.docs / "images")
    for page in ("reality-check.md", "which-loss.md"):
        write_text(options.docs / page, render(f"{page}.j2", found))
    quote(options.readme, found["abstract"])
    print(f"{options.docs / 'reality-check.md'}: {len(found['arenas'])} arenas")


if __name__ == "__main__":
    main()
