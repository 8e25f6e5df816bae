"""Which differences are real: intervals, paired tests, ranks, effect sizes. Pure functions of arrays."""

from __future__ import annotations

from levelfield.stats._intervals import Interval, t_interval

__all__ = ["Interval", "t_interval"]
