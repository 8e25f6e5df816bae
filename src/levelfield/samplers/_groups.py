"""Groups of samples of one class, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.data import Rows


def count_groups(class_of: npt.NDArray[Any], size: int) -> int:
    """Return the number of groups that :func:`draw_groups` can find.

    Example:
        >>> count_groups(np.array([0, 0, 0, 1]), 2)
        2
    """
    return int(np.maximum(np.bincount(class_of) // size, 1).sum())


def draw_groups(order: Rows, class_of: npt.NDArray[Any], *, size: int, count: int) -> Rows:
    """Return the first ``count`` groups of ``size`` samples of one class, in the order given.

    The samples of each class are cut into groups in that order. Groups are ordered by their first sample. The
    remaining samples of a class are left out; a class smaller than ``size`` repeats its samples.

    Args:
        order: All rows, shuffled, (n,).
        class_of: Class of each row, 0 to C-1 without gaps, (n,).
        size: Samples per group.
        count: Number of groups; fewer are returned if there are no more.

    Returns:
        Row numbers, count x size.

    Example:
        >>> draw_groups(np.array([3, 1, 0, 2]), np.array([0, 0, 1, 1]), size=2, count=1).tolist()
        [[3, 2]]
    """
    if size == 1:
        return order[:count, None]
    by_class = np.argsort(class_of[order], kind="stable")
    sizes = np.bincount(class_of)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    of = np.repeat(sizes, sizes)
    place = np.arange(len(order)) - first
    opens = (place % size == 0) & ((place + size <= of) | (of < size))
    starts = np.flatnonzero(opens)
    starts = starts[np.argsort(by_class[starts])][:count]
    members = first[starts, None] + (place[starts, None] + np.arange(size)) % of[starts, None]
    groups: Rows = order[by_class[members]]
    return groups
