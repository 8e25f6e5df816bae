"""Error rates and power of the verdicts, by simulation.

    python -m benchmarks.statistics.verdicts                         # everything; two hours on one core
    python -m benchmarks.statistics.verdicts --table errors --shape cub --methods 2 5 --sims 200
    python -m benchmarks.statistics.verdicts --table candidates best equivalence reproduce budget robust

The model, in percentage points: a query's value is the sum of the difficulty of its class and of the
query for all methods; the same for one method; the effect of the seed for all methods; the same for one
method; the effect of a method's search; and the effect of one run on that query. "icc" is the share of
the variance over queries that classes explain. "seeds" is the correlation of two methods' reruns with the
same seeds. The spreads are those of MAP@R on CUB. Class means are drawn directly, because the procedure
uses nothing else of classes of one size; SOP's classes are drawn in groups of ten. The table "robust"
draws query by query.

"runs" is the number of reruns, or searches x reruns. Version 0.1 is simulated for comparison: Holm over
t-tests that add the variance over queries (as if independent) to the variance over reruns (as if seeds
were not shared).
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import platform
import time

import numpy as np
from scipy.special import stdtr, stdtrit

from levelfield.stats import (
    compare_reproduction,
    detectable_difference,
    holm,
    judge,
    moderate_variances,
    score_table,
    variance_components,
)

SHAPES = {  # drawn classes, real classes in each, queries per real class
    "cub": (100, 1, 59.24),
    "sop": (1132, 10, 5.35),
}
SEED_SD = {"cub": 0.4, "sop": 0.2}
SEARCH_SD = 0.5
FOR_ALL, FOR_ONE, IN_RUN = 500.0, 80.0, 45.0  # variances of a query's value
RUNS = ((1, 3), (1, 5), (1, 10), (3, 3))  # searches, reruns of each
DRAWS = 1000
ALPHA = 0.05


def world(rng, methods, reruns, *, shape="cub", icc=0.2, seeds=0.5, repeats=1, shift=None, unstable=1.0):
    """Return class means (methods x repeats x reruns x classes) of one experiment."""
    classes, grouped, queries = SHAPES[shape]

    def spread(variance):
        return math.sqrt(variance * (icc + (1 - icc) / queries) / grouped)

    values = spread(FOR_ALL) * rng.standard_normal((1, 1, 1, classes))
    values = values + spread(FOR_ONE) * rng.standard_normal((methods, 1, 1, classes))
    values = values + spread(IN_RUN) * rng.standard_normal((methods, repeats, reruns, classes))
    luck = math.sqrt(seeds) * rng.standard_normal((1, repeats, reruns))
    luck = luck + math.sqrt(1 - seeds) * rng.standard_normal((methods, repeats, reruns))
    luck *= SEED_SD[shape]
    luck[0] *= unstable
    if repeats > 1:  # one search: verdicts are about what it selected
        luck = luck + SEARCH_SD * rng.standard_normal((methods, repeats, 1))
    if shift is not None:
        luck = luck + np.asarray(shift)[:, None, None]
    return values + luck[..., None]


def table_of(values):
    return score_table({str(m): part for m, part in enumerate(values)}, classes=None)


def verdicts(values, rng, **options):
    return judge(table_of(values), draws=DRAWS, seed=int(rng.integers(2**31)), **options)


def differs(judgment, methods):
    """Return the pairs that are called different (methods x methods): 1 where the row is better."""
    found = np.zeros((methods, methods), dtype=int)
    for pair in judgment.pairs:
        i, j = int(pair.first), int(pair.second)
        if pair.verdict in ("better", "worse"):
            sign = 1 if pair.verdict == "better" else -1
            found[i, j], found[j, i] = sign, -sign
    return found


def version_0_1(values, shape):
    """Return version 0.1's adjusted p-values and signs for one search (methods x methods each)."""
    methods, _, reruns, classes = values.shape
    _, grouped, per_class = SHAPES[shape]
    queries = classes * grouped * per_class
    scores = values.mean(axis=3)[:, 0]
    df = np.full(methods, reruns - 1.0)
    own, own_df = moderate_variances(scores.var(axis=1, ddof=1), df, pooled_df=float(df.sum()))
    i, j = np.triu_indices(methods, 1)
    over_queries = (
        2 * (FOR_ONE + IN_RUN / reruns) / queries
    )  # its expectation: there are thousands of queries
    over_reruns = (own[i] + own[j]) / reruns
    variance = over_queries + over_reruns
    joint_df = variance**2 / (over_queries**2 / (queries - 1) + over_reruns**2 / own_df.min())
    means = scores.mean(axis=1)
    found = np.ones((methods, methods))
    p = np.minimum(2 * stdtr(joint_df, -np.abs(means[i] - means[j]) / np.sqrt(variance)), 1)
    found[i, j] = found[j, i] = holm(p)
    return found, np.sign(means[:, None] - means[None])


def bootstrap(values, rng, resamples=500):
    """Return the least adjusted p-value of a bootstrap over classes and reruns."""
    runs = values[:, 0]
    methods, reruns, classes = runs.shape
    by_class = rng.multinomial(classes, np.full(classes, 1 / classes), resamples) / classes
    by_rerun = rng.multinomial(reruns, np.full(reruns, 1 / reruns), resamples) / reruns
    drawn = np.einsum("mrb,br->bm", runs @ by_class.T, by_rerun)
    i, j = np.triu_indices(methods, 1)
    means = runs.mean(axis=(1, 2))
    moved = (drawn[:, i] - drawn[:, j]) - (means[i] - means[j])
    error = moved.std(axis=0)
    largest = np.abs(moved / error).max(axis=1)
    return (largest >= (np.abs(means[i] - means[j]) / error).max()).mean()


def any_found(judgment):
    return any(pair.verdict in ("better", "worse") for pair in judgment.pairs)


def candidates(args, rng):
    """No two methods differ: rate of any pair called different, for several procedures."""
    row("methods", "icc", "reruns", "unstable method", "version 0.1", "bootstrap", "Holm", "max-t (chosen)")
    for methods, icc, reruns, unstable in itertools.product(args.methods, (0.0, 0.4), (3, 10), (1.0, 3.0)):
        alarms = np.zeros(4)
        for _ in range(args.sims):
            values = world(rng, methods, reruns, icc=icc, unstable=unstable)
            judgment = verdicts(values, rng)
            alarms += [
                version_0_1(values, "cub")[0].min() < ALPHA,
                bootstrap(values, rng) < ALPHA,
                holm([pair.p_value for pair in judgment.pairs]).min() < ALPHA,
                any_found(judgment),
            ]
        row(methods, icc, reruns, "none" if unstable == 1 else "one, 3 x", *percent(alarms / args.sims))


def few(args, rng):
    """No two methods differ, with two reruns, or two searches of three: rate of any false alarm."""
    row("methods", "icc", "2 reruns", "2 x 3", "3 reruns")
    for methods, icc in itertools.product(args.methods, (0.0, 0.4)):
        rates = []
        for repeats, reruns in ((1, 2), (2, 3), (1, 3)):
            found = (
                any_found(verdicts(world(rng, methods, reruns, icc=icc, repeats=repeats), rng))
                for _ in range(args.sims)
            )
            rates.append(sum(found) / args.sims)
        row(methods, icc, *percent(rates))


def errors(args, rng):
    """No two methods differ: rate of any false alarm, and coverage of the intervals."""
    heads = ("0.1: any alarm", "any alarm", "all pairs in", "one mean in")
    row("shape", "methods", "icc", "seeds", "runs", *heads)
    grid = itertools.product(args.shape, args.methods, RUNS, (0.0, 0.2, 0.4), (0.0, 0.5))
    summary = {}
    for shape, methods, (repeats, reruns), icc, seeds in grid:
        old, alarms, together, alone = 0, 0, 0, []
        for _ in range(args.sims):
            values = world(rng, methods, reruns, shape=shape, icc=icc, seeds=seeds, repeats=repeats)
            judgment = verdicts(values, rng)
            old += repeats == 1 and version_0_1(values, shape)[0].min() < ALPHA
            alarms += any_found(judgment)
            together += all(pair.low <= 0 <= pair.high for pair in judgment.pairs)
            alone += [estimate.low <= 0 <= estimate.high for estimate in judgment.estimates]
        rates = [old / args.sims, alarms / args.sims, together / args.sims, float(np.mean(alone))]
        row(shape, methods, icc, seeds, runs_label(repeats, reruns), *percent(rates, blank=repeats > 1))
        summary.setdefault((shape, methods, runs_label(repeats, reruns)), []).append(rates)
    print("\nThe same, mean over icc and seeds, and from the least to the largest\n")
    HEADER["pending"] = True
    row("shape", "methods", "runs", *heads)
    for key, found in summary.items():
        means, low, high = np.mean(found, axis=0), np.min(found, axis=0), np.max(found, axis=0)
        cells = [
            f"{100 * m:.1f}% ({100 * a:.1f} to {100 * b:.1f})"
            for m, a, b in zip(means, low, high, strict=True)
        ]
        row(*key, *(["-"] if "x" in key[2] else cells[:1]), *cells[1:])


def power(args, rng):
    """True differences that are found with independent queries, where version 0.1 is valid."""
    row(
        "shape",
        "methods",
        "seeds",
        "runs",
        "truth",
        "version 0.1",
        "single step",
        "step-down (chosen)",
        "false",
    )
    grid = itertools.product(args.shape, args.methods, (0.0, 0.5), (3, 10), ("one better", "ladder"))
    for shape, methods, seeds, reruns, truth in grid:
        unit = SEED_SD[shape] * (2.5 if reruns == 3 else 1.5)
        shift = np.zeros(methods)
        if truth == "one better":
            shift[0] = unit
        else:
            shift = unit * np.arange(methods) / 2
        better = shift[:, None] > shift[None]
        found, false = np.zeros(3), 0
        for _ in range(args.sims):
            values = world(rng, methods, reruns, shape=shape, icc=0.0, seeds=seeds, shift=shift)
            judgment = verdicts(values, rng)
            adjusted, sign = version_0_1(values, shape)
            called, at_once = np.zeros((2, methods, methods), dtype=bool)
            for pair in judgment.pairs:  # the better mean is the first of its pair
                i, j = int(pair.first), int(pair.second)
                called[i, j] = pair.verdict == "better"
                at_once[i, j] = 2 * pair.difference > pair.high
            found += [(w & better).sum() for w in ((adjusted < ALPHA) & (sign > 0), at_once, called)]
            false += bool((called & ~better).any())
        rates = percent([*found / (args.sims * better.sum()), false / args.sims])
        row(shape, methods, seeds, reruns, truth, *rates)


def best(args, rng):
    """Leaders: rate at which the best method is missing, and their number."""
    row("methods", "icc", "runs", "lead over the others", "best is missing", "leaders on average")
    for methods, icc, (repeats, reruns) in itertools.product(
        args.methods, (0.0, 0.4), ((1, 3), (1, 10), (3, 3))
    ):
        for lead in (0.0, 0.3, 3.0):
            shift = np.zeros(methods)
            shift[0] = lead
            missing, count = 0, 0
            for _ in range(args.sims):
                values = world(rng, methods, reruns, icc=icc, repeats=repeats, shift=shift)
                leaders = verdicts(values, rng).leaders
                missing += "0" not in leaders if lead else len(leaders) < methods
                count += len(leaders)
            runs = runs_label(repeats, reruns)
            label = "all equal: any is missing" if not lead else f"{lead} points"
            row(methods, icc, runs, label, *percent([missing / args.sims]), f"{count / args.sims:.1f}")


def equivalence(args, rng):
    """Half of the methods are exactly the margin better: rate of false equivalence."""
    row(
        "methods",
        "margin",
        "reruns",
        "any false equivalence",
        "any false verdict",
        "equal pairs found equivalent",
    )
    for methods, margin, reruns in itertools.product(args.methods, (0.5, 1.0, 2.0), (3, 10)):
        shift = margin * (np.arange(methods) % 2)
        false, wrong, found, pairs = 0, 0, 0, 0
        for _ in range(args.sims):
            judgment = verdicts(world(rng, methods, reruns, icc=0.0, shift=shift), rng, equivalence=margin)
            apart = {id(p): shift[int(p.first)] - shift[int(p.second)] for p in judgment.pairs}
            negligible = [p for p in judgment.pairs if p.negligible]
            bad = any(apart[id(p)] != 0 for p in negligible)
            false += bad
            wrong += bad or any(p.verdict == "better" and apart[id(p)] <= 0 for p in judgment.pairs)
            found += sum(apart[id(p)] == 0 for p in negligible)
            pairs += sum(apart[id(p)] == 0 for p in judgment.pairs)
        row(
            methods,
            margin,
            reruns,
            *percent([false / args.sims, wrong / args.sims]),
            *percent([found / max(pairs, 1)]),
        )


def reproduce(args, rng):
    """Faithful reproduction, two settings, three metrics: rate of any number called different."""
    row("methods", "reruns", "unstable method", "0.1: any", "any", "a shift of 4 seed-sd found")
    kinds = [(setting, metric) for setting in "cs" for metric in "pqr"]
    for methods, reruns, unstable in itertools.product(args.methods, (3, 5, 10), (1.0, 3.0)):
        names = [(method, *kind) for method in range(methods) for kind in kinds]
        groups = {name: name[1:] for name in names}
        old, alarms, caught = 0, 0, 0
        for _ in range(args.sims):
            first, second = (
                experiment(rng, methods, reruns, len(kinds), unstable=unstable) for _ in range(2)
            )
            before, after = (dict(zip(names, part.tolist(), strict=True)) for part in (first, second))
            inside = np.abs(second.mean(axis=1) - first.mean(axis=1))
            half = stdtrit(reruns - 1, 0.975) * first.std(axis=1, ddof=1) / math.sqrt(reruns)
            old += bool((inside > half).any())
            alarms += any(
                n.verdict == "different" for n in compare_reproduction(before, after, groups=groups)
            )
            moved = dict(after)
            for kind in kinds:
                name = (methods - 1, *kind)
                moved[name] = [value + 4 for value in after[name]]
            caught += any(
                n.verdict == "different" for n in compare_reproduction(before, moved, groups=groups)
            )
        rates = percent(np.array([old, alarms, caught]) / args.sims)
        row(methods, reruns, "none" if unstable == 1 else "one, 3 x", *rates)


def experiment(rng, methods, reruns, kinds, *, unstable):
    """Return scores (methods * kinds x reruns): methods share half of the variance, kinds of a run 80%."""
    shared = math.sqrt(0.5) * rng.standard_normal((1, 1, reruns))
    own = math.sqrt(0.5) * rng.standard_normal((methods, 1, reruns))
    luck = math.sqrt(0.8) * (shared + own) + math.sqrt(0.2) * rng.standard_normal((methods, kinds, reruns))
    luck[0] *= unstable
    return luck.reshape(-1, reruns)


def budget(args, rng):
    """Budget planned from 5 methods with 5 reruns: rate at which the difference is found (target 80%)."""
    row("methods", "icc", "runs", "detectable, from the truth", "as estimated (10% to 90%)", "found")
    for methods, icc, (repeats, reruns) in itertools.product(
        args.methods, (0.0, 0.4), ((1, 5), (1, 10), (3, 3))
    ):
        plan = {"methods": methods, "classes": 100, "reruns": reruns, "repeats": repeats}
        pilots = [
            variance_components(table_of(world(rng, 5, 5, icc=icc, repeats=repeats)))
            for _ in range(min(args.sims, 200))
        ]
        mean = [
            np.mean([getattr(p, part) or 0 for p in pilots])
            for part in ("classes", "seeds", "search", "residual")
        ]
        truth = type(pilots[0])(mean[0], mean[1], mean[2] if repeats > 1 else None, mean[3])
        wanted = detectable_difference(truth, **plan)
        planned = np.quantile([detectable_difference(p, **plan) for p in pilots[:50]], [0.1, 0.9])
        shift = np.zeros(methods)
        shift[0] = wanted
        hits = []
        for _ in range(args.sims):
            judgment = verdicts(world(rng, methods, reruns, icc=icc, repeats=repeats, shift=shift), rng)
            hits += [judgment.pair("0", str(m)).verdict == "better" for m in range(1, methods)]
        runs = runs_label(repeats, reruns)
        row(
            methods,
            icc,
            runs,
            f"{wanted:.2f}",
            f"{planned[0]:.2f} to {planned[1]:.2f}",
            *percent([np.mean(hits)]),
        )


def robust(args, rng):
    """Query by query: hits and misses (P@1), unequal classes, a fixed network, missing reruns."""
    row("methods", "case", "any alarm", "all pairs in", "one mean in")
    for methods, case in itertools.product(
        (2, 5, 14), ("hits", "long tail", "fixed", "missing", "one rerun")
    ):
        alarms, together, alone = 0, 0, []
        for _ in range(args.sims):
            table, true = queries(rng, methods, case)
            judgment = judge(table, draws=DRAWS, seed=int(rng.integers(2**31)))
            alarms += any_found(judgment)
            together += all(pair.low <= 0 <= pair.high for pair in judgment.pairs)
            alone += [estimate.low <= true <= estimate.high for estimate in judgment.estimates]
        row(methods, case, *percent([alarms / args.sims, together / args.sims, np.mean(alone)]))


def queries(rng, methods, case, *, classes=100, per_class=59, reruns=5):
    """Return hits and misses of equal methods, and their true rate."""
    sizes = np.full(classes, per_class)
    if case == "long tail":
        sizes = np.maximum((rng.pareto(1.2, classes) * 12).astype(int), 2).clip(max=400)
    member = np.repeat(np.arange(classes), sizes)
    total = len(member)
    shared = 0.8 * rng.standard_normal(classes)[member] + rng.standard_normal(total)
    one = 0.3 * rng.standard_normal((methods, classes))[:, member] + 0.4 * rng.standard_normal(
        (methods, total)
    )
    seed = 0.02 * (rng.standard_normal((1, reruns, 1)) + rng.standard_normal((methods, reruns, 1)))
    if case in ("fixed", "one rerun"):
        seed[0 if case == "fixed" else slice(None)] = 0.0
    hits = (shared + one[:, None] + seed + 0.3 * rng.standard_normal((methods, reruns, total)) > 0).astype(
        float
    )
    if case == "fixed":
        hits[0] = hits[0, :1]
    values = {str(m): part for m, part in enumerate(hits)}
    if case == "fixed":
        values["0"] = hits[0, :1]
    if case == "one rerun":
        values = {name: part[:1] for name, part in values.items()}
    if case == "missing":
        values = {name: part[: 2 + int(name) % 4] for name, part in values.items()}
    return score_table(values, classes=member, fixed=["0"] if case == "fixed" else []), 0.5


def freedom(args, rng):
    """t-test at 5%, variance over 100 classes plus few replicates: two kinds of degrees of freedom."""
    row(
        "df of the replicates",
        "their share of the variance",
        "Satterthwaite",
        "share raised by 1 + 4/df (chosen)",
    )
    draws = 400 * args.sims
    for df, share in itertools.product((2, 4, 9), (0.2, 0.5, 0.8, 0.95)):
        classes = (1 - share) * rng.chisquare(99, draws) / 99
        replicates = share * rng.chisquare(df, draws) / df
        statistics = np.abs(rng.standard_normal(draws)) / np.sqrt(classes + replicates)
        rates = []
        for raised in (replicates, replicates * (1 + 4 / df)):
            joint = (classes + raised) ** 2 / (classes**2 / 99 + raised**2 / df)
            rates.append((2 * stdtr(joint, -statistics) < ALPHA).mean())
        row(df, share, *percent(rates))


def percent(rates, *, blank=False):
    """Return rates as cells; the first is blank where version 0.1 has no such design."""
    cells = [f"{100 * rate:.1f}%" for rate in rates]
    return ["-", *cells[1:]] if blank else cells


def runs_label(repeats, reruns):
    return f"{reruns}" if repeats == 1 else f"{repeats} x {reruns}"


HEADER = {"pending": True}


def row(*cells):
    """Print a row of a table, and the rule after the first row."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
    if HEADER["pending"]:
        print("|" + "---|" * len(cells), flush=True)
        HEADER["pending"] = False


TABLES = (freedom, candidates, few, errors, power, best, equivalence, reproduce, budget, robust)


def main():
    names = [table.__name__ for table in TABLES]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", nargs="+", choices=names, default=names)
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--methods", nargs="+", type=int, default=[2, 5, 14, 30])
    parser.add_argument("--sims", type=int, default=1000, help="simulated experiments per row")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{datetime.date.today()}, {platform.machine()}, {args.sims} simulations a row, seed {args.seed}")
    for table in TABLES:
        if table.__name__ in args.table:
            start = time.perf_counter()
            HEADER["pending"] = True
            print(f"\n{table.__name__}: {table.__doc__}\n", flush=True)
            table(args, np.random.default_rng([args.seed, names.index(table.__name__)]))
            print(f"\n({time.perf_counter() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
