"""Confirmations on disk: scores of reruns and of single queries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelfield.analysis._results import MethodResult
from levelfield.core.errors import RunError
from levelfield.records import (
    CLASSES,
    GALLERY_NEIGHBORS,
    GALLERY_QUERIES,
    GALLERY_SIMILARITIES,
    QUERIES_PER_CLASS,
    SPECTRUM,
    Rerun,
    RerunArrays,
    Store,
)

Array = NDArray[np.float64]
MAX_QUERIES = 50_000_000  # of one rerun; an archive with more is not believed
RerunKey = tuple[int, int]  # number of the search, number of the rerun


@dataclass(frozen=True)
class Neighbors:
    """Nearest test images of queries, by one model.

    Attributes:
        queries: Rows of the queries in the test set (q).
        rows: Rows of their nearest neighbors, nearest first (q x k).
        similarities: Cosine similarities (q x k).
    """

    queries: NDArray[np.int32]
    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]


@dataclass(frozen=True)
class Confirmation:
    """Scored reruns of one method, by (search, rerun).

    Reruns of different methods with equal numbers share their seeds and are paired.

    Attributes:
        reruns: Content of ``rerun-XX.json``.
        arrays: Values of single queries, or class means in an archive.
    """

    reruns: dict[RerunKey, Rerun]
    arrays: dict[RerunKey, RerunArrays]

    @property
    def fixed(self) -> bool:
        """True for one network that is never trained: it scores the same every time."""
        return len(self.reruns) == 1 and not any(rerun.best_epochs for rerun in self.reruns.values())

    def scores(self, setting: str, metric: str) -> dict[RerunKey, float]:
        """Return the score of each rerun that has the metric."""
        return {
            number: rerun.scores(setting)[metric]
            for number, rerun in self.reruns.items()
            if metric in rerun.scores(setting)
        }

    def per_query(self, setting: str, metric: str) -> dict[RerunKey, Array] | None:
        """Return the value of each test query (n), by rerun; None for a metric of the whole embedding space.

        Queries without another image of their class cannot be scored and are NaN. An archive has class means
        only; there each query has the mean of its class.
        """
        found = self._read(f"{setting}.{metric}", per_query=True)
        return found if found and set(found) >= set(self.scores(setting, metric)) else None

    def classes(self) -> Array | None:
        """Return the class of each test query (n); None in old records."""
        return next(iter(self.every_class_list()), None)

    def every_class_list(self) -> list[Array]:
        """Return the class of each test query (n), for each rerun that has it on record."""
        return list(self._read(CLASSES, per_query=True).values())

    def spectra(self) -> list[Array]:
        """Return the singular values of the concatenated test embeddings, for each rerun that has them."""
        return list(self.spectra_by_rerun().values())

    def spectra_by_rerun(self) -> dict[RerunKey, Array]:
        """Return the singular values of the concatenated test embeddings, by (search, rerun)."""
        return self._read(SPECTRUM)

    def neighbors(self) -> Neighbors | None:
        """Return the nearest neighbors of queries in the first rerun; None if they are not on record."""
        first = self.arrays.get((0, 0))
        if first is None:
            return None
        keys = (GALLERY_QUERIES, GALLERY_NEIGHBORS, GALLERY_SIMILARITIES)
        with first.open() as tensors:
            if not set(keys) <= set(tensors.keys()):
                return None
            return Neighbors(*(np.asarray(tensors.get_tensor(key)) for key in keys))

    def _read(self, key: str, *, per_query: bool = False) -> dict[RerunKey, Array]:
        found = {}
        for number, arrays in self.arrays.items():
            with arrays.open() as tensors:
                keys = set(tensors.keys())
                if key not in keys:
                    continue
                values = np.asarray(tensors.get_tensor(key), dtype=np.float64)
                if per_query and QUERIES_PER_CLASS in keys:
                    counts = tensors.get_tensor(QUERIES_PER_CLASS)
                    values = _repeat(values, counts, arrays.name)
                found[number] = values
        return found


def _repeat(means: Array, counts: NDArray[np.int64], name: str) -> Array:
    """Return the mean of its class for each query; raise RunError for counts that no test set has."""
    if means.shape != counts.shape or np.any(counts < 0) or counts.sum(dtype=np.float64) > MAX_QUERIES:
        raise RunError(f"{name} has no valid number of queries per class; get a new copy of the archive")
    return np.repeat(means, counts)


def read_confirmation(root: str | Path, result: MethodResult) -> Confirmation:
    """Read the confirmation of one method of the experiment in ``root``; failed reruns are left out."""
    store = Store(Path(root))
    reruns: dict[RerunKey, Rerun] = {}
    arrays: dict[RerunKey, RerunArrays] = {}
    for search, repeat in enumerate(result.repeats):
        for number, rerun in repeat.reruns.items():
            if rerun.failed is not None:
                continue
            reruns[search, number] = rerun
            found = store.rerun_arrays(repeat.confirmation, number)
            if found is not None:
                arrays[search, number] = found
    return Confirmation(reruns, arrays)
