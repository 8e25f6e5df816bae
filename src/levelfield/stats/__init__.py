"""Statistics as pure functions of arrays: verdicts on methods, intervals, budgets, ranks."""

from __future__ import annotations

from levelfield.stats._agreement import Agreement, rank_agreement
from levelfield.stats._comparison_intervals import comparison_half_widths
from levelfield.stats._effects import cliffs_delta, cohens_d
from levelfield.stats._fitted_world import AlarmRate, alarm_rate, fit_world
from levelfield.stats._friedman import Friedman, friedman
from levelfield.stats._holm import holm
from levelfield.stats._intervals import Interval, t_interval
from levelfield.stats._judge import judge
from levelfield.stats._judgment import JudgedPair, Judgment, MethodEstimate, PairVerdict
from levelfield.stats._moderate import moderate_variances
from levelfield.stats._pooled import PooledJudgment, judge_together
from levelfield.stats._power import (
    Budget,
    VarianceComponents,
    cheapest_budget,
    detectable_difference,
    plan_budgets,
    variance_components,
)
from levelfield.stats._ranks import TournamentStanding, ranks, tournament
from levelfield.stats._reproduction import ReproducedMean, ReproductionVerdict, compare_reproduction
from levelfield.stats._table import ScoreTable, rerun_table, score_table
from levelfield.stats._world import World

__all__ = [
    "Agreement",
    "AlarmRate",
    "Budget",
    "Friedman",
    "Interval",
    "JudgedPair",
    "Judgment",
    "MethodEstimate",
    "PairVerdict",
    "PooledJudgment",
    "ReproducedMean",
    "ReproductionVerdict",
    "ScoreTable",
    "TournamentStanding",
    "VarianceComponents",
    "World",
    "alarm_rate",
    "cheapest_budget",
    "cliffs_delta",
    "cohens_d",
    "compare_reproduction",
    "comparison_half_widths",
    "detectable_difference",
    "fit_world",
    "friedman",
    "holm",
    "judge",
    "judge_together",
    "moderate_variances",
    "plan_budgets",
    "rank_agreement",
    "ranks",
    "rerun_table",
    "score_table",
    "t_interval",
    "tournament",
    "variance_components",
]
