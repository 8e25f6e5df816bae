"""Exact search and ``metrics.evaluate`` against faiss's flat index, one thread.

    python -m benchmarks.speed.exact_search [--rounds 5] [--large]

The contenders run in turns and the best round counts; ratios are of processor time. faiss gets the vectors in
memory and only searches; levelfield reads them from an index directory, and ``evaluate`` also checks and
normalizes embeddings and computes three metrics. ``--large`` adds 4,000 queries in 200,000 x 512.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import faiss
import numpy as np
import torch

from benchmarks.speed.search_vectors import clustered, in_turns
from levelfield.metrics import evaluate
from levelfield.retrieval.index import search_exactly
from levelfield.retrieval.index._vectors import Vectors

METRICS = ("precision_at_1", "r_precision", "map_at_r")


def show(title: str, times: dict[str, tuple[float, float]], queries: int) -> None:
    ours, theirs = times["levelfield"][0], times["faiss"][0]
    print(
        f"| {title} | {queries / ours:,.0f} | {queries / theirs:,.0f} | {theirs / ours:.2f} |",
        flush=True,
    )


def search(rows: int, rounds: int) -> None:
    """Compare searches for ten neighbors."""
    data, queries = clustered(rows, seed=1), clustered(1000, seed=2)
    flat = faiss.IndexFlatIP(data.shape[1])
    flat.add(data)
    with tempfile.TemporaryDirectory() as work:
        vectors = Vectors(Path(work), size=data.shape[1], count=0)
        vectors.append(data)
        for some, repeats in ((queries, rounds), (queries[:1], 20 * rounds)):
            times = in_turns(
                {
                    "levelfield": lambda some=some: search_exactly(vectors, some, 10),
                    "faiss": lambda some=some: flat.search(some, 10),
                },
                repeats,
            )
            show(f"{len(some):,} of {rows:,} x {data.shape[1]}", times, len(some))


def evaluation(queries: int, rows: int, width: int, classes: int, rounds: int) -> None:
    """Compare ``evaluate`` with faiss's search for as many neighbors as the largest class has images."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(classes, width, generator=generator)

    def made(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.arange(count) % classes
        noise = torch.randn(count, width, generator=generator)
        return torch.nn.functional.normalize(centers[labels] + 2 * noise), labels

    (asked, labels), (gallery, gallery_labels) = made(queries), made(rows)
    flat = faiss.IndexFlatIP(width)
    flat.add(gallery.numpy())
    deep = int(np.bincount(gallery_labels.numpy()).max())
    times = in_turns(
        {
            "levelfield": lambda: evaluate(
                asked, labels, gallery=gallery, gallery_labels=gallery_labels, metrics=METRICS
            ),
            "faiss": lambda: flat.search(asked.numpy(), deep),
        },
        rounds,
    )
    show(f"`evaluate`, {queries:,} of {rows:,} x {width}, {deep} relevant", times, queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    print("| queries | levelfield, queries/s | faiss | times as fast |\n|---|---|---|---|", flush=True)
    search(10_000, given.rounds)
    search(100_000, given.rounds)
    evaluation(1_000, 5_000, 128, 200, given.rounds)
    evaluation(4_000, 50_000, 512, 2_000, min(2, given.rounds))
    if given.large:
        evaluation(4_000, 200_000, 512, 10_000, 1)


if __name__ == "__main__":
    main()
