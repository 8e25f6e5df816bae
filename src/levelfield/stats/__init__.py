"""Which differences are real: intervals, paired tests, ranks, effect sizes. Pure functions of arrays."""

from __future__ import annotations

from levelfield.stats._compare import Pair, Verdict, compare_pairs, verdict
from levelfield.stats._crossed import RerunNoise, crossed_p_value, half_width, rerun_noise
from levelfield.stats._diagram import critical_difference_diagram
from levelfield.stats._effects import cliffs_delta, cohens_d
from levelfield.stats._friedman import Friedman, friedman
from levelfield.stats._holm import holm
from levelfield.stats._intervals import Interval, t_interval
from levelfield.stats._judge import judge
from levelfield.stats._judgement import Estimate, JudgedPair, Judgement, PairVerdict
from levelfield.stats._moderate import moderated
from levelfield.stats._paired import Difference, paired_bootstrap, paired_permutation
from levelfield.stats._power import Budget, Components, cheapest_budget, components, detectable_difference
from levelfield.stats._ranks import Standing, ranks, tournament
from levelfield.stats._repetition import RepeatedNumber, RepeatVerdict, compare_repetition
from levelfield.stats._table import ScoreTable, rerun_table, score_table

__all__ = [
    "Budget",
    "Components",
    "Difference",
    "Estimate",
    "Friedman",
    "Interval",
    "JudgedPair",
    "Judgement",
    "Pair",
    "PairVerdict",
    "RepeatVerdict",
    "RepeatedNumber",
    "RerunNoise",
    "ScoreTable",
    "Standing",
    "Verdict",
    "cheapest_budget",
    "cliffs_delta",
    "cohens_d",
    "compare_pairs",
    "compare_repetition",
    "components",
    "critical_difference_diagram",
    "crossed_p_value",
    "detectable_difference",
    "friedman",
    "half_width",
    "holm",
    "judge",
    "moderated",
    "paired_bootstrap",
    "paired_permutation",
    "ranks",
    "rerun_noise",
    "rerun_table",
    "score_table",
    "t_interval",
    "tournament",
    "verdict",
]
