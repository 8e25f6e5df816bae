"""Comparison of recorded numbers."""

from __future__ import annotations

import math

TOLERANCE = 1e-6  # values per query are stored as float32


def same_number(one: float | None, other: float | None) -> bool:
    """Return True if two recorded numbers are equal up to rounding, or both are missing.

    Example:
        >>> same_number(0.1 + 0.2, 0.3), same_number(0.1, None)
        (True, False)
    """
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):  # a legal value of some metrics
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
