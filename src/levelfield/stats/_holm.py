"""Holm's correction for multiple comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from levelfield.core.errors import UsageError

Values: TypeAlias = Sequence[float] | NDArray[np.floating]


def holm(p_values: Values) -> NDArray[np.float64]:
    """Return Holm-adjusted p-values (m), in the given order.

    They control the family-wise error rate under any dependence of the tests.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise UsageError(f"p-values must be a list of numbers from 0 to 1, got {p_values!r}")
    order = np.argsort(p, kind="stable")
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
