"""False alarms of `lf.evaluate` for two equal models, with clustered queries.

    python -m benchmarks.statistics.model_alarms                  # all cells; half an hour on one core
    python -m benchmarks.statistics.model_alarms --sims 2000 --cells values
    python -m benchmarks.statistics.model_alarms --sims 1000 --cells embeddings

Cells "values" draw the value of each query: shared difficulty, an effect of its class on each model, and
noise. "within" is the correlation of two queries of one class in the difference of the models. Values are
numbers, or hits and misses (P@1). "unequal" draws class sizes from 2 to about 100.

Cells "embeddings" draw two models with class centers of their own and the same noise, and go the whole way:
search, score of each query, verdict. Both models are equal: one is better on these classes by luck only.

"over queries" is the paired t-test over queries, as if they were independent.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from scipy import stats

import levelfield as lf
from levelfield.analysis import ModelScores, compare_models

ALPHA = 0.05
VALUES = [  # classes, queries per class, correlation within a class, kind
    (30, 20, 0.0, "numbers"),
    (30, 20, 0.3, "numbers"),
    (30, 20, 0.3, "hits"),
    (30, 20, 0.3, "unequal"),
    (100, 20, 0.0, "numbers"),
    (100, 20, 0.3, "numbers"),
    (100, 20, 0.3, "hits"),
    (100, 20, 0.3, "unequal"),
    (10, 40, 0.3, "numbers"),
]
EMBEDDINGS = [(30, 12, "P@1"), (30, 12, "MAP@R"), (100, 8, "P@1"), (100, 8, "MAP@R")]
METRICS = {"P@1": "precision_at_1", "MAP@R": "map_at_r"}


def draw_values(rng, classes, size, within, kind):
    """Return values of two models (2 x Q) and the class of each query (Q)."""
    sizes = np.full(classes, size)
    if kind == "unequal":
        sizes = np.clip(np.round(np.exp(rng.normal(math.log(size), 0.8, classes))), 2, 5 * size).astype(int)
    member = np.repeat(np.arange(classes), sizes)
    shared = rng.normal(size=classes)[member] + rng.normal(size=len(member))
    own = math.sqrt(within) * rng.normal(size=(2, classes))[:, member]
    own = own + math.sqrt(1 - within) * rng.normal(size=(2, len(member)))
    values = shared + own
    return (values > -0.5).astype(float) if kind == "hits" else values, member


def draw_embeddings(rng, classes, size, metric):
    member = np.repeat(np.arange(classes), size)
    models = {}
    for name in ("a", "b"):
        rows = rng.normal(size=(classes, 12))[member] + 1.4 * rng.normal(size=(len(member), 12))
        models[name] = (rows, member)
    found = lf.evaluate(models, metrics=(METRICS[metric],)).comparison
    return np.concatenate([own.per_query[METRICS[metric]] for own in found.models.values()]), member, found


def called_different(comparison):
    return comparison.pairs[0].verdict in ("better", "worse")


def over_queries(values):
    return stats.ttest_rel(values[0], values[1]).pvalue < ALPHA


def show(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def report(cell, alarms, naive, sims, started):
    error = 100 * math.sqrt(max(alarms, 1) / sims * (1 - alarms / sims) / sims)
    rates = [f"{100 * alarms / sims:.1f}% ± {error:.1f}", f"{100 * naive / sims:.0f}%"]
    show(*cell, *rates, sims, f"{time.perf_counter() - started:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sims", type=int, default=2000)
    parser.add_argument(
        "--cells", nargs="+", choices=("values", "embeddings"), default=["values", "embeddings"]
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    head = (
        "classes",
        "queries of each",
        "within",
        "kind",
        "false alarms",
        "over queries",
        "simulations",
        "time",
    )
    show(*head)
    show(*["---"] * len(head))
    if "values" in args.cells:
        for number, (classes, size, within, kind) in enumerate(VALUES):
            rng = np.random.default_rng((args.seed, number))
            alarms = naive = 0
            started = time.perf_counter()
            for _ in range(args.sims):
                values, member = draw_values(rng, classes, size, within, kind)
                models = {
                    name: ModelScores({"map_at_r": row[None]}) for name, row in zip("ab", values, strict=True)
                }
                alarms += called_different(compare_models(models, classes=member, equivalence=0))
                naive += over_queries(values)
            report((classes, size, within, kind), alarms, naive, args.sims, started)
    if "embeddings" in args.cells:
        for number, (classes, size, metric) in enumerate(EMBEDDINGS):
            rng = np.random.default_rng((args.seed, 100 + number))
            alarms = naive = 0
            started = time.perf_counter()
            for _ in range(args.sims):
                values, _, comparison = draw_embeddings(rng, classes, size, metric)
                alarms += called_different(comparison)
                naive += over_queries(values)
            report((classes, size, "-", f"embeddings, {metric}"), alarms, naive, args.sims, started)


if __name__ == "__main__":
    main()
