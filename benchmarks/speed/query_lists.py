"""Time and memory of a search with lists of relevant and ignored items, and of the same search by class.

    python -m benchmarks.speed.query_lists                    # 2,000 queries in 200,000 items, both ways
    python -m benchmarks.speed.query_lists --queries 20000 --kinds lists

Items belong to 10,000 classes; a query's list holds the items of its class, 20 on average, and 20 others are
ignored. Embeddings have 512 numbers in float32. "memory" is the peak of the process without the inputs.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

import levelfield as lf

ITEMS, SIZE, CLASSES, IGNORED = 200_000, 512, 10_000, 20
METRICS = ("precision_at_1", "map_at_r", "map_at_100")


def measure(queries: int, kind: str) -> str:
    """Return the line of one search."""
    random = np.random.default_rng(0)
    gallery = random.standard_normal((ITEMS, SIZE), dtype=np.float32)
    classes = random.integers(0, CLASSES, ITEMS)
    order = np.argsort(classes, kind="stable")
    start = np.searchsorted(classes[order], np.arange(CLASSES + 1))
    labels = random.integers(0, CLASSES, queries)
    relevant = [order[start[label] : start[label + 1]] for label in labels]
    ignored = [np.setdiff1d(random.integers(0, ITEMS, IGNORED), own) for own in relevant]
    asked = gallery[[own[0] for own in relevant]]
    asked += 1.5 * random.standard_normal((queries, SIZE), dtype=np.float32)
    by_list = {"relevant": relevant, "ignore": ignored}
    options = by_list if kind == "lists" else {"gallery_labels": classes}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, work = time.perf_counter(), time.process_time()
    lf.evaluate(asked, labels, gallery=gallery, metrics=METRICS, **options)
    wall, work = time.perf_counter() - wall, time.process_time() - work
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    return f"| {queries:,} | {kind} | {wall:.0f} s | {work:.0f} s | {memory:.1f} GB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--kinds", nargs="+", default=["classes", "lists"], choices=["classes", "lists"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:  # in a process of its own, because the peak of memory never falls
        print(measure(given.queries, given.kinds[0]))
        return
    print("| queries | relevance by | wall-clock | CPU | memory |\n|---|---|---|---|---|", flush=True)
    for kind in given.kinds:
        command = [sys.executable, "-m", "benchmarks.speed.query_lists", "--one"]
        subprocess.run([*command, "--queries", str(given.queries), "--kinds", kind], check=True)


if __name__ == "__main__":
    main()
