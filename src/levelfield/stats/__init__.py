"""Which differences are real: verdicts on methods, intervals, budgets, ranks. Pure functions of arrays."""

from __future__ import annotations

from levelfield.stats._agreement import Agreement, rank_agreement
from levelfield.stats._diagram import critical_difference_diagram, group_diagram
from levelfield.stats._effects import cliffs_delta, cohens_d
from levelfield.stats._friedman import Friedman, friedman
from levelfield.stats._holm import holm
from levelfield.stats._intervals import Interval, t_interval
from levelfield.stats._judge import judge
from levelfield.stats._judgement import Estimate, JudgedPair, Judgement, PairVerdict
from levelfield.stats._moderate import moderated
from levelfield.stats._power import Budget, Components, cheapest_budget, components, detectable_difference
from levelfield.stats._ranks import Standing, ranks, tournament
from levelfield.stats._repetition import RepeatedNumber, RepeatVerdict, compare_repetition
from levelfield.stats._table import ScoreTable, rerun_table, score_table

__all__ = [
    "Agreement",
    "Budget",
    "Components",
    "Estimate",
    "Friedman",
    "Interval",
    "JudgedPair",
    "Judgement",
    "PairVerdict",
    "RepeatVerdict",
    "RepeatedNumber",
    "ScoreTable",
    "Standing",
    "cheapest_budget",
    "cliffs_delta",
    "cohens_d",
    "compare_repetition",
    "components",
    "critical_difference_diagram",
    "detectable_difference",
    "friedman",
    "group_diagram",
    "holm",
    "judge",
    "moderated",
    "rank_agreement",
    "ranks",
    "rerun_table",
    "score_table",
    "t_interval",
    "tournament",
]
