"""What a confirmation left on disk, rerun by rerun and query by query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelfield.compare._results import Result
from levelfield.records import (
    CLASSES,
    LOOK_NEIGHBOURS,
    LOOK_QUERIES,
    LOOK_SIMILARITIES,
    QUERIES_PER_CLASS,
    SPECTRUM,
    Rerun,
    Store,
    open_arrays,
)

Array = NDArray[np.float64]
Number = tuple[int, int]


@dataclass(frozen=True)
class Neighbours:
    """Which test images one model finds nearest.

    Attributes:
        queries: The queries, by their number among the test images (q).
        rows: Their nearest neighbours, nearest first (q x k).
        similarities: Their cosines (q x k).
    """

    queries: NDArray[np.int32]
    rows: NDArray[np.int32]
    similarities: NDArray[np.float32]


@dataclass(frozen=True)
class Confirmation:
    """The reruns of one method that were scored, by the number of the search and their own.

    Equal numbers pair the reruns of different methods: they share their seeds.

    Attributes:
        reruns: What ``rerun-XX.json`` says.
        arrays: Where the values of single queries lie.
    """

    reruns: dict[Number, Rerun]
    arrays: dict[Number, Path]

    @property
    def fixed(self) -> bool:
        """Whether this is one network that is never trained: it would score the same every time."""
        return len(self.reruns) == 1 and not any(rerun.best_epochs for rerun in self.reruns.values())

    def scores(self, setting: str, metric: str) -> dict[Number, float]:
        """The score of each rerun that has the metric."""
        return {
            number: rerun.scores(setting)[metric]
            for number, rerun in self.reruns.items()
            if metric in rerun.scores(setting)
        }

    def per_query(self, setting: str, metric: str) -> dict[Number, Array] | None:
        """The value of each test query (n), by rerun; None for a measure of the whole space.

        Queries that cannot be scored, for want of another image of their class, are NaN. An archive has class
        means only: there every query has that of its class.
        """
        found = self._read(f"{setting}.{metric}", per_query=True)
        return found if found and set(found) >= set(self.scores(setting, metric)) else None

    def classes(self) -> Array | None:
        """The class of each test query (n); None in records that are older than this."""
        return next(iter(self.every_class_list()), None)

    def every_class_list(self) -> list[Array]:
        """The class of each test query (n), once for each rerun that has it on record."""
        return list(self._read(CLASSES, per_query=True).values())

    def spectra(self) -> list[Array]:
        """Singular values of the concatenated test embeddings, of each rerun that has them on record."""
        return list(self.spectra_by_rerun().values())

    def spectra_by_rerun(self) -> dict[Number, Array]:
        """The same by rerun."""
        return self._read(SPECTRUM)

    def neighbours(self) -> Neighbours | None:
        """The nearest neighbours of queries in the first rerun; None if they were not kept."""
        file = self.arrays.get((0, 0))
        if file is None:
            return None
        keys = (LOOK_QUERIES, LOOK_NEIGHBOURS, LOOK_SIMILARITIES)
        with open_arrays(file) as tensors:
            if not set(keys) <= set(tensors.keys()):
                return None
            return Neighbours(*(np.asarray(tensors.get_tensor(key)) for key in keys))

    def _read(self, key: str, *, per_query: bool = False) -> dict[Number, Array]:
        found = {}
        for number, file in self.arrays.items():
            with open_arrays(file) as tensors:
                keys = set(tensors.keys())
                if key not in keys:
                    continue
                values = np.asarray(tensors.get_tensor(key), dtype=np.float64)
                if per_query and QUERIES_PER_CLASS in keys:
                    values = np.repeat(values, tensors.get_tensor(QUERIES_PER_CLASS))
                found[number] = values
        return found


def read_confirmation(root: str | Path, result: Result) -> Confirmation:
    """The confirmation of one method of the experiment in ``root``; failed reruns are left out."""
    store = Store(Path(root))
    reruns: dict[Number, Rerun] = {}
    arrays: dict[Number, Path] = {}
    for search, repeat in enumerate(result.repeats):
        for number, rerun in repeat.reruns.items():
            if rerun.failed is not None:
                continue
            reruns[search, number] = rerun
            file = store.rerun_file(repeat.confirmation, number).with_suffix(".safetensors")
            if file.exists():
                arrays[search, number] = file
    return Confirmation(reruns, arrays)
