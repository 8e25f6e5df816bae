"""Student's t-interval of a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from levelfield.core.errors import UsageError


@dataclass(frozen=True)
class Interval:
    """Mean of ``n`` values with the half-width of its confidence interval; NaN for a single value.

    Example:
        >>> interval = Interval(mean=0.5, half_width=0.1, n=3)
        >>> interval.low, interval.high
        (0.4, 0.6)
    """

    mean: float
    half_width: float
    n: int

    @property
    def low(self) -> float:
        """Lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end."""
        return self.mean + self.half_width

    def contains(self, value: float) -> bool:
        """Return True if ``value`` is inside; False if the half-width is NaN."""
        return self.low <= value <= self.high


def t_interval(values: Sequence[float] | NDArray[np.floating], confidence: float = 0.95) -> Interval:
    """Return the mean of ``values`` (n) and its two-sided t-interval.

    The half-width of a single value is NaN, because its spread is unknown.

    Example:
        >>> interval = t_interval([1.0, 2.0, 3.0])
        >>> round(interval.mean, 2), round(interval.half_width, 2), interval.n
        (2.0, 2.48, 3)
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise UsageError(f"t_interval takes a list of at least one number, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise UsageError("t_interval takes finite numbers, got NaN or infinity; leave failed runs out")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1, got {confidence}")
    mean = float(array.mean())
    if array.size == 1:
        return Interval(mean=mean, half_width=math.nan, n=1)
    quantile = float(stdtrit(array.size - 1, (1 + confidence) / 2))
    standard_error = float(array.std(ddof=1)) / math.sqrt(array.size)
    return Interval(mean=mean, half_width=quantile * standard_error, n=int(array.size))
