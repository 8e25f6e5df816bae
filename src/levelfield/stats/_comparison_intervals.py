"""Intervals for reading a chart or table of several methods: two methods differ if theirs do not overlap.

The interval of one method alone is no help there. It is wide, because it covers how hard the test classes
are, which all methods share. What counts is the interval of each difference. So each method gets a half
width such that the half widths of two methods add up to that of their difference, as closely as possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from levelfield.stats._judgment import JudgedPair


def comparison_half_widths(pairs: Sequence[JudgedPair]) -> dict[str, float]:
    """Return a half width for each method of the pairs; empty if no difference has a finite interval.

    Half widths are fitted by least squares and never negative. With two methods each gets half of the
    difference's half width.

    Example:
        >>> def pair(a, b, d, half):
        ...     return JudgedPair(a, b, d, d - half, d + half, 9.0, 0.1, 0.1, "undecided")
        >>> found = comparison_half_widths([pair("a", "b", 1, 3), pair("a", "c", 2, 4), pair("b", "c", 1, 5)])
        >>> {name: round(half, 6) for name, half in found.items()}
        {'a': 1.0, 'b': 2.0, 'c': 3.0}
    """
    widths = {}
    for pair in pairs:
        # the end on the far side of 0 is never cut off
        half = pair.high - pair.difference if pair.difference >= 0 else pair.difference - pair.low
        if math.isfinite(half):
            widths[pair.first, pair.second] = half
    names = list(dict.fromkeys(name for pair in widths for name in pair))
    if not names:
        return {}
    if len(names) == 2:
        return dict.fromkeys(names, next(iter(widths.values())) / 2)
    design = np.array([[float(name in pair) for name in names] for pair in widths])
    found, _ = nnls(design, np.array(list(widths.values())))
    return dict(zip(names, map(float, found), strict=True))
