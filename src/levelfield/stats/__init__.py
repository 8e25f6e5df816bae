"""Which differences are real: intervals, paired tests, ranks, effect sizes. Pure functions of arrays."""

from __future__ import annotations

from levelfield.stats._compare import Pair, Verdict, compare_pairs, verdict
from levelfield.stats._crossed import RerunNoise, crossed_p_value, half_width, rerun_noise
from levelfield.stats._diagram import critical_difference_diagram
from levelfield.stats._effects import cliffs_delta, cohens_d
from levelfield.stats._friedman import Friedman, friedman
from levelfield.stats._holm import holm
from levelfield.stats._intervals import Interval, t_interval
from levelfield.stats._paired import Difference, paired_bootstrap, paired_permutation
from levelfield.stats._ranks import Standing, ranks, tournament

__all__ = [
    "Difference",
    "Friedman",
    "Interval",
    "Pair",
    "RerunNoise",
    "Standing",
    "Verdict",
    "cliffs_delta",
    "cohens_d",
    "compare_pairs",
    "critical_difference_diagram",
    "crossed_p_value",
    "friedman",
    "half_width",
    "holm",
    "paired_bootstrap",
    "paired_permutation",
    "ranks",
    "rerun_noise",
    "t_interval",
    "tournament",
    "verdict",
]
