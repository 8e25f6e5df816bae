"""Which methods of an experiment differ: paired over test queries, and over reruns.

A difference counts only if it is an accident neither of the queries nor of the seeds: the paired permutation
test over queries, Holm-corrected over all pairs, must reject, and the 95% t-interval of the paired
differences between reruns must exclude zero. With one rerun each, or a measure of the whole space that has
no value per query, the other half decides alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelfield.errors import UsageError, did_you_mean
from levelfield.protocol import SETTINGS, Comparison, Confirmation, collect, read_confirmation
from levelfield.reports._findings import Finding
from levelfield.stats import Interval, compare_pairs, t_interval

MAIN_SETTING = "concatenated"
FEWEST_RESAMPLES = 100  # where only the verdict counts, not the bootstrap interval


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
        leaders: By (setting, metric): the best mean, and the methods not distinguishable from it.
    """

    root: Path
    comparison: Comparison
    confirmations: Mapping[str, Confirmation]
    setting: str
    metric: str
    findings: tuple[Finding, ...]
    leaders: Mapping[tuple[str, str], frozenset[str]]


def weigh(root: str | Path, *, setting: str = MAIN_SETTING, metric: str | None = None) -> Evidence:
    """Read an experiment's folder and test its differences.

    Args:
        root: The folder that ``levelfield run`` wrote.
        setting: "concatenated" or "separated": which scores the findings are about.
        metric: Which measure they are about; that of the selection by default.
    """
    comparison = collect(root)
    metric = metric or main_metric(comparison)
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
        findings=tuple(find(confirmations, setting, metric)),
        leaders={
            (where, what): leaders_of(confirmations, where, what)
            for where in SETTINGS
            for what in comparison.metrics
        },
    )


def main_metric(comparison: Comparison) -> str:
    """The measure by which hyperparameters were selected, or the last one where it was not tested."""
    selected: str = comparison.experiment["training"]["metric"]
    return selected if selected in comparison.metrics else comparison.metrics[-1]


def ranked(confirmations: Mapping[str, Confirmation], setting: str, metric: str) -> dict[str, float]:
    """The mean score of each method that has one, best first."""
    means = {}
    for method, confirmation in confirmations.items():
        scores = confirmation.scores(setting, metric)
        if scores and math.isfinite(mean := float(np.mean(list(scores.values())))):
            means[method] = mean
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def leaders_of(confirmations: Mapping[str, Confirmation], setting: str, metric: str) -> frozenset[str]:
    """The method of the best mean and those that are not distinguishable from it."""
    order = list(ranked(confirmations, setting, metric))
    if len(order) < 2:
        return frozenset(order)
    findings = find(confirmations, setting, metric, against=order[0], resamples=FEWEST_RESAMPLES)
    alike = {finding.first for finding in findings if finding.verdict == "not distinguishable"}
    return frozenset({order[0], *alike})


def find(
    confirmations: Mapping[str, Confirmation],
    setting: str,
    metric: str,
    *,
    against: str | None = None,
    alpha: float = 0.05,
    resamples: int = 10_000,
) -> list[Finding]:
    """Compare every pair of methods, or each with ``against``; empty with fewer than two methods."""
    means = ranked(confirmations, setting, metric)
    if against is not None and against not in means:
        raise UsageError(f'no scores of a method "{against}" to compare with{did_you_mean(against, means)}')
    if len(means) < 2:
        return []

    def over_reruns(a: str, b: str) -> Interval | None:
        return _over_reruns(confirmations[a], confirmations[b], setting, metric)

    values = _per_query(confirmations, list(means), setting, metric)
    if values is None:
        pairs = [(a, b) for a in means for b in means if _wanted(a, b, list(means), against)]
        return [
            Finding(first=a, second=b, difference=means[a] - means[b], reruns=over_reruns(a, b))
            for a, b in pairs
        ]
    compared = compare_pairs(values, against=against, alpha=alpha, resamples=resamples)
    return [
        Finding(
            first=pair.first,
            second=pair.second,
            difference=means[pair.first] - means[pair.second],
            reruns=over_reruns(pair.first, pair.second),
            queries=pair,
            alpha=alpha,
        )
        for pair in compared
    ]


def _wanted(a: str, b: str, order: list[str], against: str | None) -> bool:
    return (b == against and a != b) if against else order.index(a) < order.index(b)


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


def _over_reruns(one: Confirmation, other: Confirmation, setting: str, metric: str) -> Interval | None:
    """The interval of paired differences; a network that is never trained pairs with every rerun."""
    first, second = one.scores(setting, metric), other.scores(setting, metric)
    if one.fixed:
        first = dict.fromkeys(second, *first.values())
    if other.fixed:
        second = dict.fromkeys(first, *second.values())
    common = [number for number in first if number in second]
    if len(common) < 2:
        return None
    return t_interval([first[number] - second[number] for number in common])
