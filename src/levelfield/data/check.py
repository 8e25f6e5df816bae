"""Checking a dataset: sizes, unreadable files, and the same image on both sides of the train/test border."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from levelfield.data._dataset import Dataset, Rows
from levelfield.data._duplicates import Print, exact_groups, near_pairs, print_of
from levelfield.data.store._decode import decode

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Findings:
    """What a check found.

    Attributes:
        images: How many images are listed.
        classes: How many classes have one or more.
        smallest: The size of the smallest class.
        median: The size of the median class.
        largest: The size of the largest class.
        single: How many classes have one image only, of which nothing can be retrieved.
        unreadable: Row and reason of each image that cannot be read.
        exact_leaks: Pairs (development row, test row) with the same pixels.
        near_leaks: Pairs (development row, test row) that look nearly the same.
        conflicts: Pairs of rows with the same pixels but different labels.
        copies: How many images repeat an earlier one, wherever they lie.
    """

    images: int
    classes: int
    smallest: int
    median: float
    largest: int
    single: int
    unreadable: tuple[tuple[int, str], ...]
    exact_leaks: tuple[tuple[int, int], ...]
    near_leaks: tuple[tuple[int, int], ...]
    conflicts: tuple[tuple[int, int], ...]
    copies: int

    @property
    def sound(self) -> bool:
        """Whether every image can be read and none is on both sides of the border."""
        return not (self.unreadable or self.exact_leaks or self.near_leaks)


def check(
    dataset: Dataset, *, test: Rows, workers: int = 1, progress: Progress = lambda done, total: None
) -> Findings:
    """Read every image of ``dataset`` once and look for trouble.

    Args:
        dataset: The dataset.
        test: The test rows of a split plan; all others are on the development side of the border.
        workers: How many processes decode.
        progress: Called with the number of images read and of all.
    """
    rows, prints, unreadable = [], [], []
    everything = np.arange(len(dataset), dtype=np.int64)
    for done, (row, result) in enumerate(decode(dataset.images, everything, resize=None, workers=workers), 1):
        if isinstance(result, str):
            unreadable.append((row, result))
        else:
            rows.append(row)
            prints.append(print_of(result))
        progress(done, len(dataset))
    sizes = np.unique(dataset.labels, return_counts=True)[1]
    exact, near, conflicts, copies = _duplicates(dataset, np.array(rows, dtype=np.int64), prints, test)
    return Findings(
        images=len(dataset),
        classes=len(sizes),
        smallest=int(sizes.min()),
        median=float(np.median(sizes)),
        largest=int(sizes.max()),
        single=int((sizes == 1).sum()),
        unreadable=tuple(unreadable),
        exact_leaks=exact,
        near_leaks=near,
        conflicts=conflicts,
        copies=copies,
    )


Pairs = tuple[tuple[int, int], ...]


def _duplicates(
    dataset: Dataset, rows: Rows, prints: list[Print], test: Rows
) -> tuple[Pairs, Pairs, Pairs, int]:
    is_test = np.zeros(len(dataset), dtype=bool)
    is_test[test] = True
    exact, conflicts, copies = [], [], 0
    for group in exact_groups(prints):
        members = rows[group].tolist()
        copies += len(members) - 1
        exact += [(a, b) for a in members for b in members if not is_test[a] and is_test[b]]
        first = members[0]
        conflicts += [(first, b) for b in members[1:] if dataset.labels[b] != dataset.labels[first]]
    development, tested = np.flatnonzero(~is_test[rows]), np.flatnonzero(is_test[rows])
    near = [(int(rows[a]), int(rows[b])) for a, b in near_pairs(prints, development, tested)]
    return tuple(exact), tuple(near), tuple(conflicts), copies
