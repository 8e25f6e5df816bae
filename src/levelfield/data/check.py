"""Dataset check: class sizes, unreadable files, and images that are in both development and test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from levelfield.data._dataset import Dataset, Rows
from levelfield.data._duplicates import (
    ImageSignature,
    compute_signature,
    find_near_duplicates,
    group_exact_duplicates,
)
from levelfield.data._image_files import FileImages, unreadable_reason
from levelfield.data.store._decode import decode_rows

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class DatasetFindings:
    """Result of a dataset check.

    Attributes:
        images: Number of images.
        classes: Number of classes with at least one image.
        smallest: Images in the smallest class.
        median: Median number of images per class.
        largest: Images in the largest class.
        single: Names of classes with a single image; retrieval cannot find a match in them.
        unreadable: Row and reason of each unreadable image.
        exact_leaks: Pairs (development row, test row) with the same pixels.
        near_leaks: Pairs (development row, test row) that look nearly the same.
        conflicts: Pairs of rows with the same pixels but different labels.
        copies: Number of images with the same pixels as an earlier one, in any part.
    """

    images: int
    classes: int
    smallest: int
    median: float
    largest: int
    single: tuple[str, ...]
    unreadable: tuple[tuple[int, str], ...]
    exact_leaks: tuple[tuple[int, int], ...]
    near_leaks: tuple[tuple[int, int], ...]
    conflicts: tuple[tuple[int, int], ...]
    copies: int

    @property
    def passed(self) -> bool:
        """True if every image is readable and none is in both development and test."""
        return not (self.unreadable or self.exact_leaks or self.near_leaks)


def check(
    dataset: Dataset, *, test: Rows, workers: int = 1, progress: Progress = lambda done, total: None
) -> DatasetFindings:
    """Read every image of ``dataset`` once and report unreadable, duplicate and conflicting images.

    Args:
        dataset: Dataset to check.
        test: Test rows of a split plan; all other rows are development rows.
        workers: Number of decoding processes.
        progress: Called with the number of images read and the total.
    """
    rows, signatures, unreadable = [], [], []
    all_rows = np.arange(len(dataset), dtype=np.int64)
    decoded = decode_rows(dataset.images, all_rows, resize=None, workers=workers)
    for done, (row, result) in enumerate(decoded, 1):
        if isinstance(result, str):
            unreadable.append((row, result))
        else:
            rows.append(row)
            signatures.append(compute_signature(result))
        progress(done, len(dataset))
    present, sizes = np.unique(dataset.labels, return_counts=True)
    exact, near, conflicts, copies = _duplicates(dataset, np.array(rows, dtype=np.int64), signatures, test)
    return DatasetFindings(
        images=len(dataset),
        classes=len(sizes),
        smallest=int(sizes.min()),
        median=float(np.median(sizes)),
        largest=int(sizes.max()),
        single=tuple(dataset.class_names[label] for label in present[sizes == 1]),
        unreadable=tuple(unreadable),
        exact_leaks=exact,
        near_leaks=near,
        conflicts=conflicts,
        copies=copies,
    )


def find_unreadable_files(dataset: Dataset, *, progress: Progress = lambda done, total: None) -> list[str]:
    """Return the reason for each image file that cannot be read; quicker than a full check.

    Args:
        dataset: Dataset of image files.
        progress: Called with the number of files read and the total.
    """
    assert isinstance(dataset.images, FileImages)
    reasons = []
    for done, path in enumerate(dataset.images.paths, 1):
        if reason := unreadable_reason(dataset.images.root / path):
            reasons.append(reason)
        progress(done, len(dataset))
    return reasons


def find_conflicting_copies(dataset: Dataset) -> list[tuple[str, str]]:
    """Return pairs of files with the same content in different classes."""
    if dataset.digests is None or not isinstance(dataset.images, FileImages):
        return []
    first: dict[bytes, int] = {}
    pairs = []
    for row in range(len(dataset)):
        seen = first.setdefault(dataset.digests[row].tobytes(), row)
        if dataset.labels[seen] != dataset.labels[row]:
            pairs.append((dataset.images.paths[seen], dataset.images.paths[row]))
    return pairs


Pairs = tuple[tuple[int, int], ...]


def _duplicates(
    dataset: Dataset, rows: Rows, signatures: list[ImageSignature], test: Rows
) -> tuple[Pairs, Pairs, Pairs, int]:
    is_test = np.zeros(len(dataset), dtype=bool)
    is_test[test] = True
    exact, conflicts, copies = [], [], 0
    for group in group_exact_duplicates(signatures):
        members = rows[group].tolist()
        copies += len(members) - 1
        exact += [(a, b) for a in members for b in members if not is_test[a] and is_test[b]]
        first = members[0]
        conflicts += [(first, b) for b in members[1:] if dataset.labels[b] != dataset.labels[first]]
    development, tested = np.flatnonzero(~is_test[rows]), np.flatnonzero(is_test[rows])
    near = [(int(rows[a]), int(rows[b])) for a, b in find_near_duplicates(signatures, development, tested)]
    return tuple(exact), tuple(near), tuple(conflicts), copies
