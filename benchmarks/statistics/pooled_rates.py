"""Error rates of verdicts over experiments: methods are equal in general, but not on every dataset.

    python benchmarks/statistics/pooled_rates.py --sims 1000     # continues pooled_rates.json
    python benchmarks/statistics/pooled_rates.py --table

Each experiment is simulated like the record of Cars196 in results/ (error_rates.py), in percentage points.
A method's luck on a dataset is normal; "unequal" gives methods luck of different size (width 0.7), "one"
gives the last method ten times the luck of the others.
"Found": one method is better by 2 points in general.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import numpy as np

from levelfield.stats import World, judge_together

HERE = Path(__file__).resolve().parent
BATCH = 25
CELLS = [
    (methods, datasets, luck, width)
    for methods in (22, 6, 3)
    for datasets in (2, 3, 5)
    for luck, width in ((0.0, 0.0), (0.5, 0.0), (0.5, 0.7))
] + [(methods, datasets, 0.5, "one") for methods in (3, 22) for datasets in (2, 3)]


def simulate(cell, generator, number):
    methods, datasets, luck, width = cell
    world = World(
        methods=methods, searches=3, reruns=4, classes=98, class_sd=0.72, residual_sd=1.13,
        rerun_sd=0.059, rerun_width=0.52, shared=0.2, search_sd=0.18, search_width=0.46,
    )  # fmt: skip
    if width == "one":
        sizes = np.append(np.full(methods - 1, luck), 10 * luck)
    else:
        sizes = luck * np.exp(width * generator.standard_normal(methods))
    found = {}
    for key, gain in (("alarms", 0.0), ("found", 2.0)):
        gains = np.eye(methods)[0] * gain
        tables = {
            str(d): world.draw(generator, gains + 5 * d + sizes * generator.standard_normal(methods))
            for d in range(datasets)
        }
        pairs = judge_together(tables, draws=600, seed=number).pairs
        better = [p for p in pairs if p.verdict == "better"]
        found[key] = sum(p.first == "0" for p in better) / (methods - 1) if gain else bool(better)
    return found


def run(args):
    results = json.loads(args.results.read_text()) if args.results.exists() else {}
    for cell in CELLS:
        name = " ".join(str(part) for part in cell)
        counted = results.setdefault(name, {"sims": 0, "alarms": 0, "found": 0})
        while counted["sims"] < args.sims:
            generator = np.random.default_rng([zlib.crc32(name.encode()), counted["sims"] // BATCH])
            for number in range(BATCH):
                for key, value in simulate(cell, generator, number).items():
                    counted[key] += float(value)
            counted["sims"] += BATCH
            args.results.write_text(json.dumps(results, indent=1) + "\n")
        print(name, counted, flush=True)


def table(args):
    print("| methods | datasets | luck on a dataset | false alarms | 2 points found | sims |")
    print("|---|---|---|---|---|---|")
    for name, n in json.loads(args.results.read_text()).items():
        methods, datasets, luck, width = name.split()
        if n["sims"]:
            unequal = {"0.0": "", "one": ", one 10 times"}.get(width, ", unequal")
            luck = "none" if luck == "0.0" else f"{luck} points{unequal}"
            rates = " | ".join(f"{100 * n[key] / n['sims']:.1f}%" for key in ("alarms", "found"))
            print(f"| {methods} | {datasets} | {luck} | {rates} | {n['sims']} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sims", type=int, default=1000, help="simulations a cell")
    parser.add_argument("--results", type=Path, default=HERE / "pooled_rates.json")
    parser.add_argument("--table", action="store_true", help="print the table")
    args = parser.parse_args()
    table(args) if args.table else run(args)


if __name__ == "__main__":
    main()
