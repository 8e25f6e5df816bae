"""Train/test splits with a growing distribution shift between training and test classes.

After ooDML (Milbich et al. 2021), which measures the shift as the Frechet distance between pretrained
features of the two sides. Whole classes are swapped, so the sides stay class-disjoint and keep their number
of classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.data._dataset import Rows

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ShiftedSplit:
    """Split with its shift.

    Attributes:
        swaps: Number of swapped pairs of classes.
        is_test: bool array (N,), True for test images.
        distance: Frechet distance between the features of the two sides.
    """

    swaps: int
    is_test: Flags
    distance: float


def make_shifted_splits(features: Floats, labels: Rows, is_test: Flags, *, levels: int) -> list[ShiftedSplit]:
    """Return the given split and ``levels`` more, each with a larger shift.

    Each swap exchanges the training class nearest to the test images with the test class nearest to the
    training images. Nearness is the distance to the other side's mean minus the distance to the own side's
    mean. Swaps continue until no pair would move the sides further apart. The levels are evenly spaced over
    the swaps.

    Args:
        features: float array (N, D), features of a pretrained network.
        labels: int64 array (N,).
        is_test: bool array (N,), the first split; each class must be on one side.
        levels: Number of splits besides the first.

    Example:
        >>> points = np.repeat([[0.0], [9.0], [1.0], [12.0]], 3, axis=0)
        >>> labels, is_test = np.repeat(np.arange(4), 3), np.repeat([False, False, True, True], 3)
        >>> first, second = make_shifted_splits(points, labels, is_test, levels=1)
        >>> first.distance < second.distance, second.swaps, second.is_test[::3].tolist()
        (True, 1, [False, True, False, True])
    """
    if levels < 1:
        raise UsageError(f"levels is {levels}; it must be at least 1")
    classes, dense = np.unique(labels, return_inverse=True)
    test = np.array([is_test[dense == number].any() for number in range(len(classes))])
    if (test[dense] != is_test).any() or test.all() or not test.any():
        raise UsageError(
            "the official split of this dataset is not class-disjoint, or one side of it is empty; "
            "put each class on one side, and some classes on each side"
        )
    sides = list(_swaps(features, dense, test))
    wanted = np.unique(np.linspace(0, len(sides) - 1, levels + 1).round().astype(int))
    if len(wanted) <= levels:
        swaps = len(sides) - 1
        raise UsageError(f"only {swaps} swaps increase the shift; set levels to at most {swaps}")
    return [
        ShiftedSplit(int(swaps), sides[swaps][dense], frechet_distance(features, sides[swaps][dense]))
        for swaps in wanted
    ]


def _swaps(features: Floats, dense: Rows, test: Flags) -> Iterator[Flags]:
    """Yield the test flags of the classes, at first and after each swap that moves the means apart."""
    counts = np.bincount(dense).astype(float)
    sums = np.zeros((len(counts), features.shape[1]))
    np.add.at(sums, dense, features)
    means = sums / counts[:, None]
    while True:
        yield test.copy()
        here, there = (sums[side].sum(0) / counts[side].sum() for side in (~test, test))
        pull = np.linalg.norm(means - here, axis=1) - np.linalg.norm(means - there, axis=1)
        leaving = int(np.argmax(np.where(test, -np.inf, pull)))
        coming = int(np.argmin(np.where(test, pull, np.inf)))
        if pull[leaving] <= pull[coming]:  # another swap would bring the sides together
            return
        test[leaving], test[coming] = True, False


def frechet_distance(features: Floats, is_test: Flags) -> float:
    """Return the squared Frechet distance between Gaussians fitted to the two sides.

    Example:
        >>> points = np.array([[0.0], [2.0], [10.0], [12.0]])
        >>> frechet_distance(points, np.array([False, False, True, True]))
        100.0
    """
    one, other = features[~is_test], features[is_test]
    first, second = (np.atleast_2d(np.cov(side, rowvar=False)) for side in (one, other))
    gap = one.mean(0) - other.mean(0)
    values, axes = np.linalg.eigh(first)
    half = (axes * np.sqrt(np.maximum(values, 0))) @ axes.T
    shared = np.sqrt(np.maximum(np.linalg.eigvalsh(half @ second @ half), 0)).sum()
    return float(gap @ gap + np.trace(first) + np.trace(second) - 2 * shared)
