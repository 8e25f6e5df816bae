"""Analysis of one experiment: which methods differ, computed from its records.

For each metric, `levelfield.stats.judge` compares all methods together. Query classes and seeds both count as
chance and are paired between methods. A metric of the whole embedding space has no value per query; its
verdicts use the scores of the reruns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from levelfield.analysis._computed_once import ComputedOnce
from levelfield.analysis._confirmation import Confirmation, read_confirmation
from levelfield.analysis._pair_result import PairResult
from levelfield.analysis._results import Comparison, read_comparison
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.records import SETTINGS, MetricInfo
from levelfield.stats import (
    Interval,
    Judgment,
    ScoreTable,
    comparison_half_widths,
    judge,
    rerun_table,
    score_table,
)

MAIN_SETTING = "concatenated"
DEFAULT_EQUIVALENCE_POINTS = 0.5  # smaller differences do not matter when a method is chosen
NO_CLASSES = (
    "The records do not name the classes of queries: queries count as independent, and verdicts are too sure."
)


@dataclass(frozen=True)
class Analysis:
    """Results of an experiment and the verdicts on all pairs of methods.

    Attributes:
        root: Experiment directory.
        comparison: Results of all methods.
        confirmations: Scored reruns by method. Methods without a scored rerun are missing.
        setting: Setting of ``pairs``: "concatenated" or "separated".
        metric: Metric of ``pairs``.
        pairs: All pairs of methods, best methods first. The better mean of a pair comes first.
        judgments: Verdicts on all methods that have the metric, by (setting, metric). Each is computed
            when it is first read: with 22 methods, one takes seconds.
    """

    root: Path
    comparison: Comparison
    confirmations: Mapping[str, Confirmation]
    setting: str
    metric: str
    pairs: tuple[PairResult, ...]
    judgments: Mapping[tuple[str, str], Judgment]

    @property
    def leaders(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Methods that no other was found better than, by (setting, metric); empty without a direction."""
        return ComputedOnce(product(SETTINGS, self.comparison.metrics), self._leaders)

    def _leaders(self, key: tuple[str, str]) -> frozenset[str]:
        directed = self.comparison.metric_infos[key[1]].higher_is_better is not None
        return self.judgments[key].leaders if directed and key in self.judgments else frozenset()

    def interval(self, method: str, setting: str, metric: str) -> Interval:
        """Return a method's mean with its interval for comparison; n = 0 without a score.

        Two methods differ if their intervals do not overlap, up to rounding: the intervals are those of the
        verdicts, split between the methods (:func:`levelfield.stats.comparison_half_widths`). They cover the
        test classes, the seeds, and the searches if there are several.
        """
        result = next(each for each in self.comparison.results if each.method == method)
        seeds = result.seed_interval(setting, metric)
        half = self._half_widths(setting, metric).get(method)
        if half is None or not seeds.n:
            return Interval(seeds.mean, math.nan, min(seeds.n, 1))
        return Interval(seeds.mean, half, max(2, seeds.n))

    def interval_alone(self, method: str, setting: str, metric: str) -> Interval:
        """Return a method's mean with its 95% interval for other classes, seeds and searches of this kind.

        It says how well the method does on its own. It is too wide to compare methods: all of them share the
        test classes.
        """
        judgment = self.judgments.get((setting, metric))
        found = [each for each in judgment.estimates if each.method == method] if judgment else []
        if not found or not math.isfinite(found[0].high):
            return self.interval(method, setting, metric)
        return Interval(found[0].mean, found[0].high - found[0].mean, 2)

    @cached_property
    def _all_half_widths(self) -> Mapping[tuple[str, str], dict[str, float]]:
        return ComputedOnce(self.judgments, lambda key: comparison_half_widths(self.judgments[key].pairs))

    def _half_widths(self, setting: str, metric: str) -> dict[str, float]:
        return self._all_half_widths.get((setting, metric), {})

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of the verdicts in ``pairs``, one sentence each."""
        found = self.judgments.get((self.setting, self.metric))
        return () if found is None else found.caveats

    @property
    def metric_info(self) -> MetricInfo:
        """Label, unit and direction of ``metric``."""
        return self.comparison.metric_infos[self.metric]

    @property
    def means(self) -> dict[str, float]:
        """Mean score of each scored method, best first."""
        return rank_by_mean(self.confirmations, self.setting, self.metric_info)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Largest groups of methods, adjacent by mean, in which no two methods were found different.

        Two methods without a common group may still be undecided, if a method between them differs from one.
        """
        return group_alike(list(self.means), self.pairs)


def analyze(
    root: str | Path,
    *,
    setting: str = MAIN_SETTING,
    metric: str | None = None,
    equivalence: float | None = None,
) -> Analysis:
    """Read an experiment directory and compare all pairs of methods.

    Args:
        root: Experiment directory, as ``levelfield run`` writes it.
        setting: "concatenated" or "separated".
        metric: Metric of the pairs. Defaults to the selection metric.
        equivalence: Largest difference that does not matter, in the unit of the tables: 0.5 is half a point.
            Defaults to 0.5 for metrics in percent. Other metrics have no default; no pair is then called
            equivalent. 0 turns equivalence off.

    Raises:
        UsageError: The setting or the metric is unknown, or ``equivalence`` is negative.
    """
    comparison = read_comparison(root)
    metric = metric or comparison.main_metric
    if setting not in SETTINGS:
        raise UsageError(f'unknown setting "{setting}"{did_you_mean(setting, SETTINGS)}')
    if metric not in comparison.metrics:
        raise UsageError(f'{root} has no metric "{metric}"{did_you_mean(metric, comparison.metrics)}')
    confirmations = {
        result.method: read_confirmation(root, result)
        for result in comparison.results
        if any(result.scores[MAIN_SETTING].values())
    }
    judged = [
        (each_setting, each_metric)
        for each_setting, each_metric in product(SETTINGS, comparison.metrics)
        if rank_by_mean(confirmations, each_setting, comparison.metric_infos[each_metric])
    ]
    margin = equivalence_margin(equivalence, comparison.metric_infos[metric])

    def judge_one(key: tuple[str, str]) -> Judgment:
        found = compare_methods(
            confirmations,
            key[0],
            comparison.metric_infos[key[1]],
            equivalence=margin if key == (setting, metric) else None,
        )
        assert found is not None  # some method has the metric
        return found

    judgments = ComputedOnce(judged, judge_one)
    main = judgments.get((setting, metric))
    return Analysis(
        root=Path(root),
        comparison=comparison,
        confirmations=confirmations,
        setting=setting,
        metric=metric,
        pairs=tuple(list_pair_results(main, confirmations, comparison.metric_infos[metric])),
        judgments=judgments,
    )


def equivalence_margin(equivalence: float | None, metric_info: MetricInfo) -> float | None:
    """Return the largest difference that does not matter as a score; None if equivalence is not tested.

    Args:
        equivalence: The difference as tables print it; None takes half a point for metrics in percent.
        metric_info: Metric that is compared.
    """
    if equivalence is None and metric_info.unit == "percent":
        equivalence = DEFAULT_EQUIVALENCE_POINTS
    if equivalence is not None and not equivalence >= 0:
        raise UsageError(f"equivalence {equivalence:g} is negative; give 0 or more, such as 0.5")
    return equivalence / metric_info.scale if equivalence else None


def group_alike(methods: Sequence[str], pairs: Sequence[PairResult]) -> list[tuple[str, ...]]:
    """Return the largest groups of adjacent ``methods`` in which no two were found different."""
    different = {
        frozenset((pair.first, pair.second))
        for pair in pairs
        if pair.verdict not in ("undecided", "equivalent")
    }
    found: list[tuple[str, ...]] = []
    reach = 0  # a group that does not end after the one before is a part of it
    for start in range(len(methods)):
        end = start + 1
        while end < len(methods) and not any(
            frozenset((method, methods[end])) in different for method in methods[start:end]
        ):
            end += 1
        if end - start > 1 and end > reach:
            found.append(tuple(methods[start:end]))
            reach = end
    return found


def rank_by_mean(
    confirmations: Mapping[str, Confirmation], setting: str, metric_info: MetricInfo
) -> dict[str, float]:
    """Return the mean score of each scored method, best first (largest first without a direction)."""
    means = {}
    for method, confirmation in confirmations.items():
        scores = confirmation.scores(setting, metric_info.name)
        if scores and math.isfinite(mean := float(np.mean(list(scores.values())))):
            means[method] = mean
    sign = -metric_info.sign
    return dict(sorted(means.items(), key=lambda item: sign * item[1]))


def compare_methods(
    confirmations: Mapping[str, Confirmation],
    setting: str,
    metric_info: MetricInfo,
    *,
    equivalence: float | None = None,
    alpha: float = 0.05,
) -> Judgment | None:
    """Compare all methods that have the metric; return None if no method has it.

    Args:
        confirmations: Scored reruns by method.
        setting: "concatenated" or "separated".
        metric_info: Metric to compare by.
        equivalence: Largest difference that does not matter, as a score (0.005 is half a point).
        alpha: Probability of at least one false verdict among all pairs.
    """
    table = build_score_table(confirmations, setting, metric_info)
    if table is None:
        return None
    found = judge(
        table,
        alpha=alpha,
        equivalence=equivalence,
        higher_is_better=metric_info.higher_is_better is not False,
    )
    if found.classes and confirmations[table.methods[0]].classes() is None:
        found = replace(found, caveats=(*found.caveats, NO_CLASSES))
    return found


def list_pair_results(
    judgment: Judgment | None, confirmations: Mapping[str, Confirmation], metric_info: MetricInfo
) -> list[PairResult]:
    """Return all pairs of a judgment, best methods first; the better mean of a pair comes first."""
    if judgment is None:
        return []
    reruns = {name: None if c.fixed else len(c.reruns) for name, c in confirmations.items()}

    def fewest(*methods: str) -> int:
        return min((count for m in methods if (count := reruns[m]) is not None), default=1)

    return [
        PairResult(pair, judgment.classes, fewest(pair.first, pair.second), metric_info)
        for pair in judgment.pairs
    ]


def build_score_table(
    confirmations: Mapping[str, Confirmation], setting: str, metric_info: MetricInfo
) -> ScoreTable | None:
    """Return the scores to compare, best methods first; None if no method has the metric.

    The table has values per query if all methods have them on record, else scores of reruns.
    """
    methods, metric = list(rank_by_mean(confirmations, setting, metric_info)), metric_info.name
    if not methods:
        return None
    fixed = [method for method in methods if confirmations[method].fixed]
    numbers = {number for method in methods for number in confirmations[method].reruns}
    searches, reruns = (range(1 + max(column)) for column in zip(*numbers, strict=True))
    queries = {method: confirmations[method].per_query(setting, metric) for method in methods}
    lengths = {len(row) for found in queries.values() if found is not None for row in found.values()}
    if len(lengths) == 1 and None not in queries.values():
        missing = np.full(lengths.pop(), np.nan)
        rows = {
            method: np.stack([[found.get((s, r), missing) for r in reruns] for s in searches])
            for method, found in queries.items()
            if found is not None
        }
        values = [row for found in queries.values() if found for row in found.values()]
        scored_everywhere = np.isfinite(values).all(0)
        classes = confirmations[methods[0]].classes()
        if scored_everywhere.sum() > 1:
            return score_table(rows, classes=classes, fixed=fixed)
    scores = {
        method: [[own.get((s, r), math.nan) for r in reruns] for s in searches]
        for method in methods
        if (own := confirmations[method].scores(setting, metric))
    }
    return rerun_table(scores, fixed=fixed)


def filter_pairs(analysis: Analysis, against: str) -> Analysis:
    """Return the analysis with only the pairs of one method, which becomes the second of each pair.

    Args:
        analysis: Analysis of an experiment.
        against: Name of the method; "best" is the method with the best mean.

    Raises:
        UsageError: The method has no scores.
    """
    if against == "best":
        against = next(iter(analysis.means), against)
    if against not in analysis.means:
        raise UsageError(
            f'no method "{against}" with scores to compare with{did_you_mean(against, analysis.means)}'
        )
    found = [
        pair if pair.second == against else replace(pair, judged=pair.judged.swapped())
        for pair in analysis.pairs
        if against in (pair.first, pair.second)
    ]
    return replace(analysis, pairs=tuple(found))
