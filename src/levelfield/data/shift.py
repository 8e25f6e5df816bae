"""Train/test splits of growing shift: classes change sides until the two halves have little in common.

After ooDML (Milbich et al. 2021), which measures a shift by the Frechet distance between pretrained features
of the two sides. Classes move as a whole, so the sides stay class-disjoint and keep their number of classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.data._dataset import Rows
from levelfield.errors import UsageError

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Shift:
    """One split.

    Attributes:
        swaps: How many pairs of classes have changed sides.
        is_test: bool array (N,), one per image.
        distance: Frechet distance between the features of the two sides.
    """

    swaps: int
    is_test: Flags
    distance: float


def growing_shift(features: Floats, labels: Rows, is_test: Flags, *, levels: int) -> list[Shift]:
    """The split as it is, and ``levels`` more, each further apart.

    In each swap the training class that lies nearest to the test images (distance to their mean minus that to
    the own side's) changes places with the test class that lies nearest to the training images. The swaps go
    on until no pair would still move apart; the levels divide them evenly.

    Args:
        features: float array (N, D) of a pretrained network.
        labels: int64 array (N,).
        is_test: bool array (N,), the split to start from; a class lies on one side.
        levels: How many splits beyond the first.

    Example:
        >>> points = np.repeat([[0.0], [9.0], [1.0], [12.0]], 3, axis=0)
        >>> labels, is_test = np.repeat(np.arange(4), 3), np.repeat([False, False, True, True], 3)
        >>> first, second = growing_shift(points, labels, is_test, levels=1)
        >>> first.distance < second.distance, second.swaps, second.is_test[::3].tolist()
        (True, 1, [False, True, False, True])
    """
    if levels < 1:
        raise UsageError(f"a growing shift needs at least 1 level, got {levels}")
    classes, dense = np.unique(labels, return_inverse=True)
    test = np.array([is_test[dense == number].any() for number in range(len(classes))])
    if (test[dense] != is_test).any() or test.all() or not test.any():
        raise UsageError(
            "a growing shift starts from classes that lie on one side of the border, some on each; "
            "this dataset's official split does not"
        )
    sides = list(_swaps(features, dense, test))
    wanted = np.unique(np.linspace(0, len(sides) - 1, levels + 1).round().astype(int))
    if len(wanted) <= levels:
        raise UsageError(f"only {len(sides) - 1} swaps move the sides apart; ask for at most so many levels")
    return [
        Shift(int(swaps), sides[swaps][dense], frechet_distance(features, sides[swaps][dense]))
        for swaps in wanted
    ]


def _swaps(features: Floats, dense: Rows, test: Flags) -> Iterator[Flags]:
    """Which classes are test, before the first swap and after each, as long as it moves the means apart."""
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
        if pull[leaving] <= pull[coming]:  # from here on a swap would bring them together
            return
        test[leaving], test[coming] = True, False


def frechet_distance(features: Floats, is_test: Flags) -> float:
    """Squared Frechet distance between normal distributions that have the two sides' means and covariances.

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
