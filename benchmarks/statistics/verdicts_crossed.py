"""Error rates of the verdicts in a second simulation, with many crossed effects.

    python -m benchmarks.statistics.verdicts_crossed            # every row; a quarter of an hour on one core
    python -m benchmarks.statistics.verdicts_crossed --rows base unequal --methods 22 --runs 3x4 --sims 800

Written independently of ``verdicts.py``, to check it. A class mean, in points, is the sum of effects of:
the class; the class for one method; the class in one rerun, for all methods and for one; the class for
the selection of one search; the queries (class sizes are CUB's: 41 to 60); the seed, for all methods and
for one; the search. No two methods differ. "known" is the half-width of the intervals if all variances
were known.
"""

from __future__ import annotations

import argparse
import datetime
import math
import time

import numpy as np
from scipy.stats import studentized_range

from levelfield.stats import judge
from levelfield.stats._table import ScoreTable

QUERY, QUERY_METHOD, QUERY_RUN = (
    25.0,
    9.0,
    6.0,
)  # standard deviations of a query: for all, for a method, in a run
ROWS = {
    "base": {},
    "search matters most": {"search": 1.5, "method_class": 0.5},
    "unequal methods": {"unequal": 0.5, "unequal_search": 0.7, "search": 0.8, "method_class": 1.0},
    "skewed search": {"skew": True, "search": 1.0, "method_class": 1.0},
    "classes only": {"search": 0.05, "search_class": 0.2, "seed": 0.1, "method_run_class": 0.2},
    "shared luck": {"rerun_share": 0.4, "search_share": 0.4, "search": 0.8, "method_class": 1.0},
    "one unstable method": {"unstable": 1.2, "method_class": 0.3, "method_run_class": 0.3, "run_class": 0.3},
    "10 classes": {"classes": 10},
    "20 classes": {"classes": 20},
    "long tail": {"sizes": "tail"},
    "long tail, 30 classes": {"sizes": "tail", "classes": 30},
}


def world(
    rng,
    methods,
    repeats,
    reruns,
    *,
    classes=100,
    sizes="cub",
    class_sd=12.0,
    method_class=2.0,
    run_class=0.6,
    method_run_class=0.7,
    search_class=1.0,
    seed=0.4,
    seed_share=0.5,
    search=0.5,
    search_share=0.0,
    unequal=0.0,
    unequal_search=0.0,
    skew=False,
    rerun_share=0.0,
    unstable=0.0,
):
    """Return class means (methods x repeats x reruns x classes) and the number of queries of each class."""
    if sizes == "cub":
        queries = rng.integers(41, 61, classes)
        queries[rng.random(classes) < 0.8] = 60
    else:
        queries = np.maximum((rng.pareto(1.5, classes) * 15).astype(int), 2).clip(max=400)
    few = 1 / np.sqrt(queries)
    draw = rng.standard_normal
    of_seed, of_search = np.exp(unequal * draw(methods)), np.exp(unequal_search * draw(methods))
    of_class = np.exp(0.5 * unequal * draw(methods))
    all_alike, each = (1, 1, 1, classes), (methods, repeats, reruns, classes)
    values = class_sd * draw(all_alike) + QUERY * few * draw(all_alike)
    values = values + (method_class * of_class)[:, None, None, None] * draw((methods, 1, 1, classes))
    values = values + QUERY_METHOD * few * draw((methods, 1, 1, classes))
    values = values + run_class * draw((1, repeats, reruns, classes))
    values = values + method_run_class * draw(each) * of_seed[:, None, None, None]
    values = values + QUERY_RUN * few * draw(each)
    luck = math.sqrt(seed_share) * draw((1, repeats, reruns))
    luck = luck + math.sqrt(1 - seed_share) * draw((methods, repeats, reruns))
    if rerun_share:
        luck = math.sqrt(1 - rerun_share) * luck + math.sqrt(rerun_share) * draw((methods, repeats, 1))
    luck = seed * of_seed[:, None, None] * luck
    if unstable:  # three times the variation of the others, per search, or per rerun if there is one search
        luck[0] += unstable * draw((repeats, 1) if repeats > 1 else (repeats, reruns))
    if repeats > 1:
        own = (methods, repeats, 1)
        chosen = _skewed(rng, own) if skew else draw(own)
        shared = math.sqrt(search_share) * draw((1, repeats, 1)) + math.sqrt(1 - search_share) * chosen
        luck = luck + search * of_search[:, None, None] * shared
        values = values + search_class * draw((methods, repeats, 1, classes))
    return values + luck[..., None], queries


def _skewed(rng, shape):
    """Return effects of a search that is mostly good and sometimes bad; mean 0, variance 1."""
    mean = math.gamma(2.5)
    return (mean - rng.exponential(size=shape) ** 1.5) / math.sqrt(math.gamma(4) - mean**2)


def table_of(values, queries):
    shares = queries / queries.sum()
    runs = values @ shares
    pulls = shares * (values - runs[..., None])
    replicates = pulls[:, 0] if values.shape[1] == 1 else pulls.mean(axis=2)
    names = tuple(str(method) for method in range(len(values)))
    return ScoreTable(names, runs, replicates, shares, np.zeros(len(values), dtype=bool))


def known_half_width(methods, repeats, reruns):
    """Return the half-width of the simultaneous intervals in "base" if every variance is known."""
    per_class = (2.0**2 + QUERY_METHOD**2 / 58) / 100
    per_search = (1.0**2 / 100 + 0.5**2) / repeats if repeats > 1 else 0.0
    per_run = ((0.7**2 + QUERY_RUN**2 / 58) / 100 + 0.5 * 0.4**2) / (repeats * reruns)
    return studentized_range.ppf(0.95, methods, 1e5) * math.sqrt(per_class + per_search + per_run)


def row_of(name, methods, repeats, reruns, sims):
    rng = np.random.default_rng([0, methods, repeats, reruns, sum(map(ord, name))])
    alarms = together = 0
    alone, widths = [], []
    for number in range(sims):
        judgment = judge(
            table_of(*world(rng, methods, repeats, reruns, **ROWS[name])), draws=2000, seed=number
        )
        alarms += any(pair.verdict == "better" for pair in judgment.pairs)
        together += all(pair.low <= 0 <= pair.high for pair in judgment.pairs)
        alone += [estimate.low <= 0 <= estimate.high for estimate in judgment.estimates]
        widths.append(np.mean([pair.high - pair.low for pair in judgment.pairs]) / 2)
    known = f"{known_half_width(methods, repeats, reruns):.2f}" if name == "base" else "-"
    rates = [f"{100 * rate:.1f}%" for rate in (alarms / sims, together / sims, np.mean(alone))]
    return [name, methods, f"{repeats} x {reruns}", *rates, f"{np.mean(widths):.2f}", known, sims]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", default=[""], help="prefixes of row names")
    parser.add_argument("--methods", nargs="+", type=int, default=[2, 5, 22])
    parser.add_argument("--runs", nargs="+", default=["3x4", "2x4"], help="searches x reruns")
    parser.add_argument("--sims", type=int, default=800)
    args = parser.parse_args()
    start = time.perf_counter()
    print(datetime.date.today())
    heads = (
        "world",
        "methods",
        "runs",
        "any alarm",
        "all pairs in",
        "one mean in",
        "half-width",
        "known",
        "sims",
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads), flush=True)
    for name in (name for name in ROWS if name.startswith(tuple(args.rows))):
        for methods in args.methods:
            for runs in args.runs:
                cells = row_of(name, methods, *map(int, runs.split("x")), args.sims)
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"\n({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main()
