"""Promise and observation of the recall of approximate indexes.

    python -m benchmarks.scores.recalls [--rows 50000] [--queries 2000]

Indexes of clustered synthetic vectors are built with several targets. Each states a recall at 10 with its
interval, measured on rows that it did not hold yet. The same is then observed with other queries from the
same clusters, against exact search, with its own interval.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.speed.search_vectors import clustered, toy_model
from levelfield.retrieval import index as retrieval_index

TARGETS = (0.9, 0.95, 0.99)
WIDTH = 128


def observe(data: np.ndarray, queries: np.ndarray, target: float, kind: str, work: Path) -> list[str]:
    """Return the cells of one index: what it states, and what was observed."""
    memory = 64 << 30 if kind == "hnsw" else int(len(data) * 0.7 * WIDTH)
    with retrieval_index.open_or_create_index(
        work / f"{kind}-{target}", toy_model(work / "toy", WIDTH), memory=memory, exact_up_to=0, recall=target
    ) as index:
        images = [retrieval_index.NewImage(f"{n}".encode(), f"/{n}.jpg", "") for n in range(len(data))]
        index.add(images, data)
        index.finish()
        facts = index.card.approximate
        assert facts is not None
        exact, _ = retrieval_index.search_exactly(index._vectors, queries, 10)
        found, _ = index.nearest(queries, 10)
    pairs = zip(exact.tolist(), found.tolist(), strict=True)
    shares = np.array([len(set(wanted) & set(got)) / 10 for wanted, got in pairs])
    margin = 1.96 * shares.std(ddof=1) / len(shares) ** 0.5
    return [
        facts.recipe,
        f"{target:g}",
        f"{facts.recall:.3f} ({facts.low:.3f} to {facts.high:.3f})",
        f"{shares.mean():.3f} ({shares.mean() - margin:.3f} to {shares.mean() + margin:.3f})",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=2000)
    given = parser.parse_args()
    data, queries = clustered(given.rows, seed=1), clustered(given.queries, seed=2)
    print(f"{given.rows:,} x {WIDTH}, {given.queries:,} queries that no index holds\n")
    print("| index | target | stated recall at 10 | observed |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as work:
        for kind in ("hnsw", "ivfpq"):
            for target in TARGETS:
                cells = observe(data, queries, target, kind, Path(work))
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
