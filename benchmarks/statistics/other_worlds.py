"""Error rates of `judge` in worlds that its constants were not chosen in, from a second simulator.

    python benchmarks/statistics/other_worlds.py --sims 1000     # continues other_worlds.json
    python benchmarks/statistics/other_worlds.py --table         # prints the table of docs/statistics.md

Nothing is shared with error_rates.py: records are values per query, in percentage points, that pass through
`score_table`. No two methods differ. Every batch of 25 simulations has a seed of its own, so that an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

import numpy as np

from levelfield.stats import judge, score_table

RESULTS = Path(__file__).resolve().with_suffix(".json")
BATCH = 25
DRAWS = 600
CUB = {"search": 0.07, "width": 1.39}  # spread of search standard deviations as on CUB
CARS = {"search": 0.18, "width": 0.57}
EVEN = {"search": 0.1, "width": 0.3}
WORLDS = {
    "CUB": CUB,
    "Cars196": CARS,
    "CUB, classes of 2 to 60 queries": CUB | {"zipf": True},
    "CUB, t-distribution with 2 degrees of freedom": CUB | {"tail": 2},
    "CUB, luck is an exponential loss": CUB | {"skew": True},
    "Cars196, luck is an exponential loss": CARS | {"skew": True},
    "Cars196, half of the luck shared by all methods": CARS | {"shared": 0.5},
    "Cars196, families of 4 methods share 60% of it": CARS | {"family": 4},
    "Cars196, 4 searches, the last one failed for 40%": CARS | {"searches": 4, "failed": 0.4},
    "Cars196, one rerun a search": CARS | {"reruns": 1},
    "every second method 10 times as unstable": {"search": 0.03, "width": 0.0, "steps": 10},
    "three methods 10 times as unstable": EVEN | {"wild": (10, 10, 10)},
    "one method 30 times as unstable": EVEN | {"wild": (30,)},
    "3 methods, one 10 times as unstable": EVEN | {"wild": (10,), "methods": 3},
    "Cars196, 20% bad, 3 own deviations": CARS | {"bad": 0.2, "own": 3},
    "Cars196, 20% bad, 8 own deviations": CARS | {"bad": 0.2, "own": 8},
    "CUB, 10% bad, 1 point each": CUB | {"bad": 0.1, "drop": 1.0},
    "CUB, 5% bad, 2 points each": CUB | {"bad": 0.05, "drop": 2.0},
    "5 methods, 20% bad, 8 own deviations": {"search": 0.1, "width": 0.6, "methods": 5, "bad": 0.2, "own": 8},
    "Cars196, 30 methods, 20 searches": CARS | {"methods": 30, "searches": 20, "reruns": 1},
}


def draw(
    generator, *, search, width, methods=22, searches=3, reruns=4, classes=60, shared=0.0, family=1,
    tail=0, skew=False, steps=1, wild=(), bad=0.0, own=0.0, drop=0.0, failed=0.0, zipf=False,
):  # fmt: skip
    """Return the values of all queries by method (searches x reruns x queries), and the queries' classes."""

    def noise(*shape):
        if tail:
            return generator.standard_t(tail, shape) / 1.5
        return 1 - generator.exponential(1.0, shape) if skew else generator.standard_normal(shape)

    sd = search * np.exp(width * generator.standard_normal(methods))
    sd[1::2] *= steps
    sd[: len(wild)] = search * np.array(wild)
    luck = np.sqrt(1 - shared) * noise(methods, searches) + np.sqrt(shared) * noise(1, searches)
    if family > 1:
        common = noise(-(-methods // family), searches).repeat(family, axis=0)[:methods]
        luck = np.sqrt(0.4) * luck + np.sqrt(0.6) * common
    went_badly = generator.random((methods, searches)) < bad
    means = sd[:, None] * luck - (own * sd[:, None] + drop) * (went_badly - bad)
    seeds = 0.06 * np.exp(0.3 * generator.standard_normal((methods, 1, 1)))
    runs = means[:, :, None] + seeds * noise(methods, searches, reruns)
    sizes = np.maximum(60 // np.arange(1, classes + 1), 2) if zipf else np.full(classes, 4)
    labels = np.repeat(np.arange(classes), sizes)
    of_classes = 0.9 * np.exp(0.25 * noise(methods, 1)) * generator.standard_normal((methods, classes))
    effects = of_classes[:, None, None] + generator.standard_normal((methods, searches, reruns, classes))
    values = (runs[..., None] + effects[..., labels]) / 100
    values[generator.random(methods) < failed, -1] = np.nan
    return {str(m): values[m] for m in range(methods)}, labels


def simulate(world, generator, number):
    """Judge one simulated record, and return what is counted."""
    values, labels = draw(generator, **world)
    judgment = judge(score_table(values, classes=labels), draws=DRAWS, seed=number)
    best = judgment.estimates[0].method
    of_best = [pair for pair in judgment.pairs if best in (pair.first, pair.second)]
    return {
        "sims": 1,
        "alarms": any(pair.verdict == "better" for pair in judgment.pairs),
        "refused": bool(judgment.refusal),
        "best_covered": all(pair.low <= 0 <= pair.high for pair in of_best),
    }


def run(args):
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, world in WORLDS.items():
        if args.world and name not in args.world:
            continue
        counted = results.setdefault(name, {"sims": 0})
        while counted["sims"] < args.sims:
            generator = np.random.default_rng([zlib.crc32(name.encode()), counted["sims"] // BATCH])
            for number in range(BATCH):
                for key, value in simulate(world, generator, number).items():
                    counted[key] = counted.get(key, 0) + int(value)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(name, counted, flush=True)


def table():
    print("| world | false alarms | refused | best covered | sims |\n|---|---|---|---|---|")
    for name, n in json.loads(RESULTS.read_text()).items():
        shares = [100 * n[key] / n["sims"] for key in ("alarms", "refused", "best_covered")]
        print(f"| {name} | {' | '.join(f'{share:.1f}%' for share in shares)} | {n['sims']} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sims", type=int, default=1000, help="simulations a world")
    parser.add_argument("--world", nargs="+", choices=WORLDS, help="only these worlds", metavar="WORLD")
    parser.add_argument("--table", action="store_true", help="print the table")
    args = parser.parse_args()
    table() if args.table else run(args)


if __name__ == "__main__":
    main()
