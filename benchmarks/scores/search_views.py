"""Gain of test-time views: images of CUB-200-2011 embedded plain, mirrored, and at several scales.

    python -m benchmarks.scores.search_views --cub DIRECTORY [--classes 30]

Uses ImageNet EfficientNet-Lite0 and the last classes of CUB (test classes in every protocol; nothing is
chosen by them here). Every image is a query against all others. Intervals are over classes, of the
difference to one view.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import levelfield as lf
from benchmarks.speed.search import lite0
from levelfield.data import load
from levelfield.retrieval import index as retrieval_index
from levelfield.stats import t_interval

METRICS = ("map_at_100", "map_at_r", "precision_at_1")
VIEWS: dict[str, dict[str, Any]] = {
    "one view": {},
    "mirrored too": {"flip": True},
    "scales 1 and 0.71": {"scales": (1.0, 0.7071)},
    "scales 1 and 1.41": {"scales": (1.0, 1.4142)},
    "scales 0.71, 1, 1.41, mirrored too": {"scales": (0.7071, 1.0, 1.4142), "flip": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cub", type=Path, required=True)
    parser.add_argument("--classes", type=int, default=30)
    options = parser.parse_args()
    dataset = load("cub200", root=str(options.cub))
    rows = np.flatnonzero(dataset.labels > dataset.labels.max() - options.classes)
    files = [Path(entry.name) for entry in retrieval_index.images_from_dataset(dataset.select(rows))]
    labels = dataset.labels[rows]
    print(f"{len(files)} images of {options.classes} classes", flush=True)
    print("| views | " + " | ".join(METRICS) + " | processor time |\n|---|---|---|---|---|")
    plain: dict[str, np.ndarray] = {}
    first = 0.0
    for name, views in VIEWS.items():
        with tempfile.TemporaryDirectory() as directory:
            embedder = lf.load_embedder(lite0(Path(directory) / "model", **views))
        began = time.process_time()
        vectors = embedder.embed(files)
        seconds = time.process_time() - began
        scores = lf.metrics.evaluate(vectors, labels, metrics=METRICS, per_query=True)
        by_class = {metric: class_means(scores.per_query[metric], labels) for metric in METRICS}
        plain, first = plain or by_class, first or seconds
        cells = [difference(by_class[metric], plain[metric], scores[metric]) for metric in METRICS]
        print(f"| {name} | " + " | ".join(cells) + f" | {seconds / first:.1f}x |", flush=True)


def class_means(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.array([np.nanmean(values[labels == label]) for label in np.unique(labels)])


def difference(values: np.ndarray, plain: np.ndarray, score: float) -> str:
    if values is plain:
        return f"{100 * score:.2f}"
    gain = t_interval(list(100 * (values - plain)))
    return f"{100 * score:.2f} ({gain.mean:+.2f} ± {gain.half_width:.2f})"


if __name__ == "__main__":
    main()
