"""Notes below the results: what limits them, and how to remove the limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean

from levelfield.analysis import SETTINGS, Analysis, Comparison
from levelfield.records import MetricInfo, SearchLuck

FEW_TRIALS = 20  # with fewer, two searches of one method often differ: docs/statistics.md
ENOUGH_SEARCHES = 3  # verdicts then include luck in the search, however large it is


def search_luck_warnings(comparison: Comparison) -> list[str]:
    """Return warnings about luck in the search, which looks like a difference between methods."""
    searched = [result for result in comparison.trained if result.selection.trial is not None]
    if not any(result.selection.hyperparameters for result in searched):
        return []
    found = []
    if comparison.experiment.search.repeats == 1:
        found.append(
            "Each method was searched once: verdicts hold for the selected hyperparameters and do not "
            "include luck in the search. Set search.repeats to 3 or more to include it."
        )
        main = comparison.metric_infos[comparison.experiment.training.metric]
        found.extend(_measured_luck(luck, main) for luck in comparison.luck)
    fewest = min(len(result.trials) for result in searched)
    if fewest < FEW_TRIALS and comparison.experiment.search.repeats < ENOUGH_SEARCHES:
        found.append(
            f"With {fewest} trial{'s' * (fewest > 1)} per search, luck in the search is large; "
            f"use {FEW_TRIALS} or more (`levelfield study search-luck` measures it)."
        )
    return found


def _measured_luck(luck: SearchLuck, of: MetricInfo) -> str:
    return (
        f"Luck in the search was measured on this dataset: {len(luck.means)} searches of {luck.method}, "
        f"{luck.trials} trials each, scored {of.shown(min(luck.means))} to {of.shown(max(luck.means))}; "
        f"{luck.different} of {luck.pairs} pairs of these searches would have been called different."
    )


def result_warnings(comparison: Comparison) -> list[str]:
    """Return warnings about the results, one sentence each."""
    found = list(comparison.notes)
    trials = {result.method: len(result.trials) for result in comparison.trained}
    if len(set(trials.values())) > 1:
        budgets = ", ".join(f"{method} {count}" for method, count in trials.items())
        found.append(f"Unequal search budgets: {budgets} trials.")
    found.extend(search_luck_warnings(comparison))
    methods = [line.method for line in comparison.ledger if line.event == "opened"]
    searches = {result.method: len(result.repeats) for result in comparison.results}
    for method in sorted(set(methods)):
        if methods.count(method) > searches.get(method, 1):
            found.append(
                f"The test set was opened {methods.count(method)} times for {method}: "
                "its selection changed after the first opening."
            )
    for result in comparison.results:
        if result.failed:
            found.append(f"{len(result.failed)} reruns of {result.method} failed: {result.failed[0]}.")
        collapsed = [rerun.collapse for repeat in result.repeats for rerun in repeat.scored if rerun.collapse]
        if collapsed:
            found.append(f"{len(collapsed)} reruns of {result.method} learned nothing: {collapsed[0]}.")
    return found


SHOWN_EXCEPTIONS = 2  # more pairs are counted
GAP = 0.25  # a difference of validation and test scores of this share of the larger one is explained


def result_notes(analysis: Analysis) -> list[str]:
    """Return notes of the page that need verdicts, one or two sentences each."""
    return [note for note in (unjudged_columns(analysis), validation_gap(analysis)) if note]


def validation_gap(analysis: Analysis) -> str:
    """Return why validation and test scores differ, if they differ greatly; else ""."""
    comparison = analysis.comparison
    metric = comparison.metric_infos[comparison.experiment.training.metric]
    if comparison.leaky or metric.name not in comparison.metrics or metric.unit != "percent":
        return ""
    pairs = [
        (float(repeat.selection.score), test)
        for result in comparison.trained
        for repeat in result.repeats
        if repeat.selection.score is not None
        and math.isfinite(test := analysis.interval(result.method, "separated", metric.name).mean)
    ]
    if not pairs:
        return ""
    validation, test = (mean(column) for column in zip(*pairs, strict=True))
    if not abs(validation - test) > GAP * max(validation, test):
        return ""
    reason = (
        "a test with more classes and images is harder, and the test classes may be harder themselves"
        if test < validation
        else "a test with fewer classes and images is easier, and the test classes may be easier themselves"
    )
    return (
        f"Validation scores are {metric.shown(validation)} {metric.label} on average, test scores "
        f"{metric.shown(test)}: {reason}. Compare methods within one of the two."
    )


def interval_exceptions(analysis: Analysis) -> str:
    """Return which verdicts the intervals of the table do not show; "" if they show all.

    One half width per method cannot fit the intervals of all pairs exactly.
    """
    if analysis.metric_info.higher_is_better is None:
        return ""
    found = []
    for pair in analysis.pairs:
        names = (pair.first, pair.second)
        one, other = (analysis.interval(name, analysis.setting, analysis.metric) for name in names)
        apart = abs(one.mean - other.mean) > one.half_width + other.half_width
        if apart and pair.verdict == "undecided":
            found.append(f"{pair.first} and {pair.second} were not told apart")
        elif not apart and pair.verdict == "better":
            found.append(f"{pair.first} is better than {pair.second}")
        elif not apart and pair.verdict == "worse":
            found.append(f"{pair.second} is better than {pair.first}")
    if not found:
        return ""
    if len(found) > SHOWN_EXCEPTIONS:
        return f"For {len(found)} of {len(analysis.pairs)} pairs the verdict is different: it counts."
    return f"The verdict counts where it is different: {'; '.join(found)}."


def unjudged_columns(analysis: Analysis, *, settings: Sequence[str] = SETTINGS) -> str:
    """Return which columns of these settings have no intervals, and why; "" if all have."""
    infos = analysis.comparison.metric_infos
    reasons = {
        f"{setting} {infos[metric].label}": judgment.refusal
        for setting in reversed(settings)
        for metric in analysis.comparison.metrics
        if (judgment := analysis.judgments.get((setting, metric))) is not None and judgment.refusal
    }
    if not reasons:
        return ""
    why = next(iter(reasons.values())).removeprefix("No verdict: ")
    return f"No intervals for {', '.join(reasons)}: {why}"
