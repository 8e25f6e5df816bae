"""Which methods of an experiment differ, by what its records hold.

All methods of a measure are judged together, by `levelfield.stats.judge`: classes of queries and seeds are
both chance, paired between methods. A measure of the whole space, which has no value per query, is decided by
reruns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from levelfield.compare._confirmation import Confirmation, read_confirmation
from levelfield.compare._findings import Finding
from levelfield.compare._results import Comparison, collect
from levelfield.errors import UsageError, did_you_mean
from levelfield.records import SETTINGS, Measure
from levelfield.stats import Judgement, ScoreTable, judge, rerun_table, score_table

MAIN_SETTING = "concatenated"
MATTERS = 0.5  # points: papers claim progress by less, but nobody chooses a method for that
NO_CLASSES = "The records do not name the classes of queries, which count as independent: that is too sure."


@dataclass(frozen=True)
class Evidence:
    """An experiment with what its confirmations say of the differences.

    Attributes:
        root: Its folder.
        comparison: Its results.
        confirmations: Rerun by rerun, by method; methods without a scored rerun are left out.
        setting: Of ``findings``.
        metric: Of ``findings``.
        findings: Every pair of methods, the better mean first, best methods first.
        judgements: By (setting, metric): all methods that have the measure, judged together.
    """

    root: Path
    comparison: Comparison
    confirmations: Mapping[str, Confirmation]
    setting: str
    metric: str
    findings: tuple[Finding, ...]
    judgements: Mapping[tuple[str, str], Judgement]

    @property
    def leaders(self) -> dict[tuple[str, str], frozenset[str]]:
        """By (setting, metric): the methods that no other was found better than; none without a direction."""
        directed = [m for m, found in self.comparison.measures.items() if found.higher_is_better is not None]
        return {
            key: self.judgements[key].leaders
            if key[1] in directed and key in self.judgements
            else frozenset()
            for key in product(SETTINGS, self.comparison.metrics)
        }

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the findings cannot say, one sentence each."""
        found = self.judgements.get((self.setting, self.metric))
        return () if found is None else found.caveats

    @property
    def measure(self) -> Measure:
        """Label, unit and direction of ``metric``."""
        return self.comparison.measures[self.metric]

    @property
    def means(self) -> dict[str, float]:
        """The mean score of each method that has one, best first."""
        return ranked(self.confirmations, self.setting, self.measure)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Neighbours in the order of the means, of whom no two were found different; the largest such groups.

        Two methods that share no group may still be undecided, where one between them differs from one.
        """
        methods = list(self.means)
        apart = {
            frozenset((finding.first, finding.second))
            for finding in self.findings
            if finding.verdict not in ("undecided", "equivalent")
        }
        found: list[tuple[str, ...]] = []
        reach = 0  # a group that ends no later than the one before lies inside it
        for start in range(len(methods)):
            end = start + 1
            while end < len(methods) and not any(
                frozenset((method, methods[end])) in apart for method in methods[start:end]
            ):
                end += 1
            if end - start > 1 and end > reach:
                found.append(tuple(methods[start:end]))
                reach = end
        return found


def weigh(
    root: str | Path,
    *,
    setting: str = MAIN_SETTING,
    metric: str | None = None,
    equivalence: float | None = None,
) -> Evidence:
    """Read an experiment's folder and test its differences.

    Args:
        root: The folder that ``levelfield run`` wrote.
        setting: "concatenated" or "separated": which scores the findings are about.
        metric: Which measure they are about; that of the selection by default.
        equivalence: The largest difference in it that does not matter, as tables print it: 0.5 is half a
            point, the default for measures in percent. Others have none, and nothing is called equivalent;
            0 does the same.
    """
    comparison = collect(root)
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
    judgements: dict[tuple[str, str], Judgement] = {}
    for each_setting, each_metric in product(SETTINGS, comparison.metrics):
        measure, margin = comparison.measures[each_metric], None
        if (each_setting, each_metric) == (setting, metric):
            margin = _margin(equivalence, measure)
        found = judge_methods(confirmations, each_setting, measure, equivalence=margin)
        if found is not None:
            judgements[each_setting, each_metric] = found
    main = judgements.get((setting, metric))
    return Evidence(
        root=Path(root),
        comparison=comparison,
        confirmations=confirmations,
        setting=setting,
        metric=metric,
        findings=tuple(findings_of(main, confirmations, comparison.measures[metric])),
        judgements=judgements,
    )


def _margin(equivalence: float | None, measure: Measure) -> float | None:
    if equivalence is None and measure.unit == "percent":
        equivalence = MATTERS
    if equivalence is not None and not equivalence >= 0:
        raise UsageError(f"--equivalence {equivalence:g} is no difference; give 0 or more, such as 0.5")
    return equivalence / measure.scale if equivalence else None


def ranked(confirmations: Mapping[str, Confirmation], setting: str, measure: Measure) -> dict[str, float]:
    """The mean score of each method that has one, best first; the largest first where none is better."""
    means = {}
    for method, confirmation in confirmations.items():
        scores = confirmation.scores(setting, measure.name)
        if scores and math.isfinite(mean := float(np.mean(list(scores.values())))):
            means[method] = mean
    sign = 1 if measure.higher_is_better is False else -1
    return dict(sorted(means.items(), key=lambda item: sign * item[1]))


def judge_methods(
    confirmations: Mapping[str, Confirmation],
    setting: str,
    measure: Measure,
    *,
    equivalence: float | None = None,
    alpha: float = 0.05,
) -> Judgement | None:
    """Judge all methods that have the measure together; None where none has.

    Args:
        confirmations: Rerun by rerun, by method.
        setting: "concatenated" or "separated".
        measure: What the scores are of.
        equivalence: The largest difference that does not matter, in the scale of the scores.
        alpha: Chance of any false finding among all pairs.
    """
    table = table_of(confirmations, setting, measure)
    if table is None:
        return None
    found = judge(
        table,
        alpha=alpha,
        equivalence=equivalence,
        higher_is_better=measure.higher_is_better is not False,
    )
    if found.classes and confirmations[table.methods[0]].classes() is None:
        found = replace(found, caveats=(*found.caveats, NO_CLASSES))
    return found


def findings_of(
    judgement: Judgement | None, confirmations: Mapping[str, Confirmation], measure: Measure
) -> list[Finding]:
    """Every pair of a judgement, the better mean first, best methods first."""
    if judgement is None:
        return []
    reruns = {name: None if c.fixed else len(c.reruns) for name, c in confirmations.items()}

    def fewest(*methods: str) -> int:
        return min((count for m in methods if (count := reruns[m]) is not None), default=1)

    return [
        Finding(pair, judgement.classes, fewest(pair.first, pair.second), measure) for pair in judgement.pairs
    ]


def table_of(confirmations: Mapping[str, Confirmation], setting: str, measure: Measure) -> ScoreTable | None:
    """What is judged: the values of all queries if every method has them on record, else scores of reruns.

    Best methods first; None where no method has the measure.
    """
    methods, metric = list(ranked(confirmations, setting, measure)), measure.name
    if not methods:
        return None
    fixed = [method for method in methods if confirmations[method].fixed]
    numbers = {number for method in methods for number in confirmations[method].reruns}
    searches, reruns = (range(1 + max(column)) for column in zip(*numbers, strict=True))
    queries = {method: confirmations[method].per_query(setting, metric) for method in methods}
    lengths = {len(row) for found in queries.values() if found is not None for row in found.values()}
    if len(lengths) == 1 and None not in queries.values():
        nothing = np.full(lengths.pop(), np.nan)
        rows = {
            method: np.stack([[found.get((s, r), nothing) for r in reruns] for s in searches])
            for method, found in queries.items()
            if found is not None
        }
        everywhere = np.isfinite([row for found in queries.values() if found for row in found.values()]).all(
            0
        )
        classes = confirmations[methods[0]].classes()
        if everywhere.sum() > 1:
            return score_table(rows, classes=classes, fixed=fixed)
    scores = {
        method: [[own.get((s, r), math.nan) for r in reruns] for s in searches]
        for method in methods
        if (own := confirmations[method].scores(setting, metric))
    }
    return rerun_table(scores, fixed=fixed)


def focus(evidence: Evidence, against: str) -> Evidence:
    """The same with findings about one method only, which becomes the second; "best" is the best mean."""
    if against == "best":
        against = next(iter(evidence.means), against)
    if against not in evidence.means:
        raise UsageError(
            f'no scores of a method "{against}" to compare with{did_you_mean(against, evidence.means)}'
        )
    found = [
        finding if finding.second == against else replace(finding, pair=finding.pair.turned())
        for finding in evidence.findings
        if against in (finding.first, finding.second)
    ]
    return replace(evidence, findings=tuple(found))
