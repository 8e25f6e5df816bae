"""Error rates and power of `judge` in worlds fitted to the records of results/, and in harder ones.

    python benchmarks/statistics/error_rates.py --sims 1000          # continues error_rates.json
    python benchmarks/statistics/error_rates.py --sims 1000 --question power equivalence
    python benchmarks/statistics/error_rates.py --table              # prints the tables of docs/statistics.md
    python benchmarks/statistics/error_rates.py --fit results/cub200-frozen results/cars196-frozen
    python benchmarks/statistics/error_rates.py --judge ../other-checkout --results other.json

Scores are in percentage points. Every batch of 25 simulations has a seed of its own, so that an interrupted
run continues where it stopped and gives the same numbers. `--judge` takes `judge` from another checkout, to
compare two versions in the same simulated records.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
BATCH = 25
DRAWS = 600
MARGIN = 0.5


def load_worlds():
    """Return `World` of this checkout, whichever version `judge` comes from."""
    spec = importlib.util.spec_from_file_location("world", SOURCE / "src/levelfield/stats/_world.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["world"] = module
    spec.loader.exec_module(module)
    return module.World


def cells(world_type):
    """Return the worlds by name; the first two are fitted to results/ (`--fit`)."""
    cub = world_type(
        methods=22, searches=3, reruns=4, classes=100, class_sd=0.97, residual_sd=1.22,
        rerun_sd=0.061, rerun_width=0.27, shared=0.2, search_sd=0.022, search_width=1.44,
    )  # fmt: skip
    cars = replace(
        cub, classes=98, class_sd=0.72, residual_sd=1.13, rerun_sd=0.059, rerun_width=0.52,
        search_sd=0.18, search_width=0.46,
    )  # fmt: skip
    audit = replace(cub, class_sd=0.9, residual_sd=0.5, search_sd=0.07, search_width=1.39)
    equal = replace(cars, search_width=0.0, rerun_width=0.0)
    one = replace(cub, methods=6, searches=1, reruns=3, residual_sd=0.5, rerun_sd=0.2, rerun_width=0.0)
    bad = replace(audit, bad=0.2, drop=8.0, bad_kind="own")
    found = {
        "fitted to CUB": cub,
        "fitted to Cars196": cars,
        "CUB, search luck as large as seeds": audit,
        "all equally stable": equal,
        "heavy tails, CUB": replace(audit, heavy=True),
        "heavy tails, Cars196": replace(cars, heavy=True),
        "20% bad, 8 own deviations": bad,
        "20% bad, 5 own deviations": replace(bad, drop=5.0),
        "20% bad, 1 point each": replace(bad, drop=1.0, bad_kind="same"),
        "20% bad, 1.5 points on average": replace(bad, drop=1.5, bad_kind="exponential"),
        "20% bad, Cars196, 1 point each": replace(cars, bad=0.2, drop=1.0, bad_kind="same"),
        "one 10 times as unstable": replace(equal, search_sd=0.07, wild=10.0),
        "one 10 times, Cars196": replace(cars, wild=10.0),
        "1 search, one of 6 6 times": replace(one, wild=6.0),
    }
    for methods in (2, 3, 5, 10, 30):
        found[f"CUB, {methods} methods"] = replace(audit, methods=methods)
        found[f"Cars196, {methods} methods"] = replace(cars, methods=methods)
    for searches in (2, 5, 10, 20):
        found[f"CUB, {searches} searches"] = replace(audit, searches=searches)
        found[f"Cars196, {searches} searches"] = replace(cars, searches=searches)
    for searches in (5, 10):
        found[f"20% bad, 8 own deviations, {searches} searches"] = replace(bad, searches=searches)
        found[f"20% bad, 1 point each, {searches} searches"] = replace(
            bad, drop=1.0, bad_kind="same", searches=searches
        )
        found[f"heavy tails, {searches} searches"] = replace(audit, heavy=True, searches=searches)
        found[f"one 10 times, {searches} searches"] = replace(
            equal, search_sd=0.07, wild=10.0, searches=searches
        )
    for classes in (30, 1000, 11_000):
        found[f"CUB, {classes} classes"] = replace(audit, classes=classes)
    for reruns in (3, 5, 10):
        found[f"1 search, {reruns} reruns, 6 methods"] = replace(one, reruns=reruns, rerun_width=0.5)
    for methods in (2, 5):
        found[f"equally stable, {methods} methods"] = replace(equal, methods=methods)
    return found


QUESTIONS = ("null", "power", "equivalence")
FOR_POWER = (
    "fitted to CUB", "fitted to Cars196", "CUB, search luck as large as seeds", "all equally stable",
    "equally stable, 5 methods", "equally stable, 2 methods", "CUB, 10 searches", "Cars196, 10 searches",
    "Cars196, 20 searches", "1 search, 5 reruns, 6 methods",
)  # fmt: skip


def ask(question, world, judge, generator, number):
    """Judge one simulated record, and return what is counted."""
    gains = np.zeros(world.methods)
    if question == "power":
        gains[0] = 1.0
    if question == "equivalence":
        gains[: world.methods // 2] = MARGIN
    judgment = judge(
        world.draw(generator, gains), draws=DRAWS, seed=number,
        equivalence=MARGIN if question == "equivalence" else None,
    )  # fmt: skip
    true = {str(m): gain for m, gain in enumerate(gains)}
    called = [pair for pair in judgment.pairs if pair.verdict == "better"]
    finite = [pair for pair in judgment.pairs if np.isfinite(pair.low)]
    best = judgment.estimates[0].method
    inside = {(p.first, p.second): p.low <= true[p.first] - true[p.second] <= p.high for p in judgment.pairs}
    found = {
        "sims": 1,
        "alarms": any(true[p.first] <= true[p.second] for p in called),
        "refused": bool(getattr(judgment, "refusal", "")),
        "best_covered": all(good for pair, good in inside.items() if best in pair),
        "all_covered": all(inside.values()),
        "means_covered": float(np.mean([e.low <= true[e.method] <= e.high for e in judgment.estimates])),
    }
    if finite:
        found |= {"judged": 1, "half": float(np.median([p.high - p.low for p in finite])) / 2}
    if question == "power":
        found["found"] = sum(p.first == "0" for p in called) / (world.methods - 1)
    if question == "equivalence":
        found["false_equivalence"] = any(
            p.verdict == "equivalent" and true[p.first] != true[p.second] for p in judgment.pairs
        )
    return found


def source_digest(checkout):
    """Return a digest of the procedure that is measured, so that two versions are never mixed."""
    files = sorted((checkout / "src/levelfield/stats").glob("*.py"))
    return f"{zlib.crc32(b''.join(file.read_bytes() for file in files)):08x}"


def run(args):
    """Simulate what is missing, batch by batch."""
    sys.path.insert(0, str(args.judge.resolve() / "src"))
    from levelfield.stats import judge

    worlds = cells(load_worlds())
    results = json.loads(args.results.read_text()) if args.results.exists() else {}
    version = source_digest(args.judge)
    if results.setdefault("source", version) != version:
        sys.exit(
            f"{args.results} was measured with another version of levelfield.stats; give another --results"
        )
    for question in args.question:
        for name, world in worlds.items():
            if args.cell and name not in args.cell:
                continue
            if (question != "null" and name not in FOR_POWER) or not args.part.covers(
                list(worlds).index(name)
            ):
                continue
            counted = results.setdefault(question, {}).setdefault(name, {"sims": 0})
            started = time.perf_counter()
            while counted["sims"] < args.sims:
                batch = counted["sims"] // BATCH
                generator = np.random.default_rng([zlib.crc32(f"{question} {name}".encode()), batch])
                for number in range(BATCH):
                    for key, value in ask(question, world, judge, generator, number).items():
                        counted[key] = counted.get(key, 0) + value
                args.results.write_text(json.dumps(results, indent=1, default=float) + "\n")
            print(question, name, counted, f"{time.perf_counter() - started:.0f} s", flush=True)


def table(args):
    """Print the tables of docs/statistics.md."""
    results = json.loads(args.results.read_text())
    worlds = cells(load_worlds())
    before = json.loads(args.before.read_text()) if args.before else {}
    print(
        "| world | methods | runs | false alarms | refused | best covered | all covered | half-width | sims |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, n in results.get("null", {}).items():
        if n["sims"]:
            w = worlds[name]
            share = [
                100 * n.get(k, 0) / n["sims"] for k in ("alarms", "refused", "best_covered", "all_covered")
            ]
            old = before.get("null", {}).get(name)
            was = f" (before {100 * old['alarms'] / old['sims']:.1f}%)" if old else ""
            print(
                f"| {name} | {w.methods} | {w.searches} x {w.reruns} | {share[0]:.1f}%{was} | "
                f"{share[1]:.1f}% | "
                f"{share[2]:.1f}% | {share[3]:.1f}% | {n.get('half', 0) / max(n.get('judged', 0), 1):.2f} | "
                f"{int(n['sims'])} |"
            )
    print("\n| world | one point found | before | any wrong verdict | sims |\n|---|---|---|---|---|")
    for name, n in results.get("power", {}).items():
        old = before.get("power", {}).get(name)
        was = f"{100 * old['found'] / old['sims']:.1f}%" if old else "-"
        print(
            f"| {name} | {100 * n['found'] / n['sims']:.1f}% | {was} | "
            f"{100 * n['alarms'] / n['sims']:.1f}% | {int(n['sims'])} |"
        )
    print("\n| world | any false equivalence | sims |\n|---|---|---|")
    for name, n in results.get("equivalence", {}).items():
        print(f"| {name} | {100 * n['false_equivalence'] / n['sims']:.1f}% | {int(n['sims'])} |")


def fit(args):
    """Print the worlds fitted to records, in fractions."""
    from levelfield.analysis import analyze, build_score_table
    from levelfield.stats import fit_world

    for root in args.fit:
        analysis = analyze(root)
        found = build_score_table(analysis.confirmations, analysis.setting, analysis.metric_info)
        print(root, fit_world(found))


class Part:
    """Every n-th world, counted from k: "0/2" and "1/2" are the halves for two processes."""

    def __init__(self, text):
        self.first, self.step = (int(number) for number in text.split("/"))

    def covers(self, index):
        return index % self.step == self.first


def merge(args):
    """Add the worlds of other result files to the results."""
    results = json.loads(args.results.read_text()) if args.results.exists() else {}
    for file in args.merge:
        for question, found in json.loads(file.read_text()).items():
            if question == "source":
                results[question] = found
                continue
            mine = results.setdefault(question, {})
            mine |= {k: v for k, v in found.items() if v["sims"] > mine.get(k, {"sims": 0})["sims"]}
    order = list(cells(load_worlds()))
    for question in QUESTIONS:
        if question in results:
            rows = results[question].items()
            results[question] = dict(sorted(rows, key=lambda row: order.index(row[0])))
    args.results.write_text(json.dumps(results, indent=1, default=float) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sims", type=int, default=1000, help="simulations a cell")
    parser.add_argument("--question", nargs="+", choices=QUESTIONS, default=["null"])
    parser.add_argument("--cell", nargs="+", help="only these worlds")
    parser.add_argument("--results", type=Path, default=HERE / "error_rates.json")
    parser.add_argument("--judge", type=Path, default=SOURCE, help="checkout with the judge to measure")
    parser.add_argument("--before", type=Path, help="results of another version, for --table")
    parser.add_argument("--table", action="store_true", help="print tables")
    parser.add_argument("--fit", nargs="+", type=Path, help="print the worlds fitted to records")
    parser.add_argument("--part", type=Part, default=Part("0/1"), help='half of the worlds: "0/2", "1/2"')
    parser.add_argument("--merge", nargs="+", type=Path, help="result files of parts to add")
    args = parser.parse_args()
    merge(args) if args.merge else fit(args) if args.fit else table(args) if args.table else run(args)


if __name__ == "__main__":
    main()
