"""Which methods of an experiment differ: paired over test queries, with the luck of the seeds counted too.

Queries and seeds are both chance: a difference counts if it stands out against their sum, and if the paired
permutation test over queries agrees; p-values are corrected by Holm's method for all pairs. With one rerun
each the queries decide alone; for a measure of the whole space, which has no value per query, the reruns do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelfield.compare._confirmation import Confirmation, read_confirmation
from levelfield.compare._findings import Finding
from levelfield.compare._results import Comparison, collect
from levelfield.errors import UsageError, did_you_mean
from levelfield.records import SETTINGS, Measure
from levelfield.stats import Interval, Pair, compare_pairs, crossed_p_value, half_width, holm, rerun_noise

MAIN_SETTING = "concatenated"
PERMUTATIONS = 10_000


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
        leaders: By (setting, metric): the best mean, and the methods not distinguishable from it; none for a
            measure without a direction.
    """

    root: Path
    comparison: Comparison
    confirmations: Mapping[str, Confirmation]
    setting: str
    metric: str
    findings: tuple[Finding, ...]
    leaders: Mapping[tuple[str, str], frozenset[str]]

    @property
    def measure(self) -> Measure:
        """Label, unit and direction of ``metric``."""
        return self.comparison.measures[self.metric]

    @property
    def means(self) -> dict[str, float]:
        """The mean score of each method that has one, best first."""
        return ranked(self.confirmations, self.setting, self.measure)


def weigh(root: str | Path, *, setting: str = MAIN_SETTING, metric: str | None = None) -> Evidence:
    """Read an experiment's folder and test its differences.

    Args:
        root: The folder that ``levelfield run`` wrote.
        setting: "concatenated" or "separated": which scores the findings are about.
        metric: Which measure they are about; that of the selection by default.
    """
    comparison = collect(root)
    metric = metric or comparison.main_metric
    if setting not in SETTINGS:
        raise UsageError(f'unknown setting "{setting}"{did_you_mean(setting, SETTINGS)}')
    if metric not in comparison.metrics:
        raise UsageError(f'{root} has no metric "{metric}"{did_you_mean(metric, comparison.metrics)}')
    confirmations = {
        result.method: read_confirmation(root, comparison, result)
        for result in comparison.results
        if any(result.scores[MAIN_SETTING].values())
    }
    return Evidence(
        root=Path(root),
        comparison=comparison,
        confirmations=confirmations,
        setting=setting,
        metric=metric,
        findings=tuple(find(confirmations, setting, comparison.measures[metric])),
        leaders={
            (each_setting, each_metric): leaders_of(
                confirmations, each_setting, comparison.measures[each_metric]
            )
            for each_setting in SETTINGS
            for each_metric in comparison.metrics
        },
    )


def ranked(confirmations: Mapping[str, Confirmation], setting: str, measure: Measure) -> dict[str, float]:
    """The mean score of each method that has one, best first; the largest first where none is better."""
    means = {}
    for method, confirmation in confirmations.items():
        scores = confirmation.scores(setting, measure.name)
        if scores and math.isfinite(mean := float(np.mean(list(scores.values())))):
            means[method] = mean
    sign = 1 if measure.higher_is_better is False else -1
    return dict(sorted(means.items(), key=lambda item: sign * item[1]))


def leaders_of(confirmations: Mapping[str, Confirmation], setting: str, measure: Measure) -> frozenset[str]:
    """The method of the best mean and those that are not distinguishable from it."""
    if measure.higher_is_better is None:
        return frozenset()
    order = list(ranked(confirmations, setting, measure))
    if len(order) < 2:
        return frozenset(order)
    findings = find(confirmations, setting, measure, against=order[0], resample=False)
    alike = {finding.first for finding in findings if finding.verdict == "not distinguishable"}
    return frozenset({order[0], *alike})


def find(
    confirmations: Mapping[str, Confirmation],
    setting: str,
    measure: Measure,
    *,
    against: str | None = None,
    alpha: float = 0.05,
    resample: bool = True,
) -> list[Finding]:
    """Compare every pair of methods, or each with ``against``; empty with fewer than two methods.

    Args:
        confirmations: Rerun by rerun, by method.
        setting: "concatenated" or "separated".
        measure: What the scores are of.
        against: Compare only with this method.
        alpha: Level of the verdicts.
        resample: Also bootstrap and permute queries; without, their variance alone speaks for them.
    """
    means = ranked(confirmations, setting, measure)
    if against is not None and against not in means:
        raise UsageError(f'no scores of a method "{against}" to compare with{did_you_mean(against, means)}')
    pairs = list(combinations(means, 2))
    if against is not None:
        pairs = [(method, against) for method in means if method != against]
    if not pairs:
        return []
    scores = {method: confirmations[method].scores(setting, measure.name) for method in means}
    fixed = [method for method in means if confirmations[method].fixed]
    noise = rerun_noise({method: list(found.values()) for method, found in scores.items()}, fixed=fixed)
    values = _per_query(confirmations, list(means), setting, measure.name)
    tested = _resampled(values, against, alpha) if values is not None and resample else {}
    findings = []
    for a, b in pairs:
        queries = None if values is None else _squared_error(values[a] - values[b])
        reruns = None if noise is None else (noise.between(a, b), noise.df)
        gap = means[a] - means[b]
        p_value = crossed_p_value(gap, queries=queries, reruns=reruns)
        pair = tested.get((a, b))
        count = min((len(scores[m]) for m in (a, b) if m not in fixed), default=1)
        findings.append(
            Finding(
                first=a,
                second=b,
                difference=gap,
                p_value=_agreed(p_value, pair),
                p_adjusted=1.0,
                reruns=None if reruns is None else Interval(gap, half_width(*reruns), count),
                queries=pair,
                alpha=alpha,
                measure=measure,
            )
        )
    adjusted = holm([finding.p_value for finding in findings]).tolist()
    return [replace(finding, p_adjusted=p) for finding, p in zip(findings, adjusted, strict=True)]


def _resampled(
    values: Mapping[str, NDArray[np.float64]], against: str | None, alpha: float
) -> dict[tuple[str, str], Pair]:
    pairs = compare_pairs(values, against=against, alpha=alpha, permutations=PERMUTATIONS)
    return {(pair.first, pair.second): pair for pair in pairs}


def _agreed(p_value: float, pair: Pair | None) -> float:
    """The larger p-value, unless random permutations found nothing as extreme: then theirs is a mere bound.

    Holm's correction for hundreds of pairs would lift that bound above 5%.
    """
    at_bound = pair is not None and pair.p_value * (PERMUTATIONS + 1) < 1.5
    return p_value if pair is None or at_bound else max(p_value, pair.p_value)


def _squared_error(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Squared standard error of the mean, and its degrees of freedom."""
    n = len(differences)
    return float(differences.var(ddof=1)) / n, n - 1.0


def _per_query(
    confirmations: Mapping[str, Confirmation], methods: list[str], setting: str, metric: str
) -> dict[str, NDArray[np.float64]] | None:
    """The values of the queries that every method scored; None if a method has none on record."""
    found = {}
    for method in methods:
        values = confirmations[method].per_query(setting, metric)
        if values is None:
            return None
        found[method] = values
    if len({len(values) for values in found.values()}) > 1:
        return None
    scored = np.isfinite(np.stack(list(found.values()))).all(axis=0)
    return {method: values[scored] for method, values in found.items()} if scored.sum() > 1 else None


def focus(evidence: Evidence, against: str) -> Evidence:
    """The same with findings about one method only, corrected for fewer pairs; "best" means the best mean."""
    if against == "best":
        against = next(iter(evidence.means), against)
    found = find(evidence.confirmations, evidence.setting, evidence.measure, against=against)
    return replace(evidence, findings=tuple(found))
