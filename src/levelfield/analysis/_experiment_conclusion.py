"""Conclusion of an experiment: its judged pairs, training times, learning and advice."""

from __future__ import annotations

from statistics import median

from levelfield.analysis._analyze import Analysis, build_score_table
from levelfield.analysis._conclusion import Conclusion, conclude
from levelfield.analysis._results import MethodResult
from levelfield.core.errors import UsageError
from levelfield.records import Store
from levelfield.stats import variance_components


def conclude_experiment(analysis: Analysis) -> Conclusion:
    """Return the conclusion of an experiment for the setting and metric of its analysis."""
    return conclude(
        analysis.judgments.get((analysis.setting, analysis.metric)),
        analysis.metric_info,
        baseline=analysis.comparison.baseline,
        seconds=training_seconds(analysis),
        notes=[*learning_notes(analysis), *trained_once_note(analysis)],
        advice=advise(analysis),
    )


def training_seconds(analysis: Analysis) -> dict[str, float]:
    """Return the median time of the runs of each method's reruns, for methods whose runs are on record."""
    store, found = Store(analysis.root), {}
    for result in analysis.comparison.trained:
        runs = [run for repeat in result.repeats for rerun in repeat.scored for run in rerun.runs]
        provenances = (store.run(run).provenance() for run in runs)
        seconds = [provenance.seconds for provenance in provenances if provenance is not None]
        if seconds:
            found[result.method] = median(seconds)
    return found


def kept_start(result: MethodResult) -> int:
    """Return the number of a method's runs that were best before training."""
    return sum(epoch == 0 for epoch in result.best_epochs)


def still_learning(analysis: Analysis, result: MethodResult) -> int:
    """Return the number of a method's runs that were best at their last evaluation."""
    training = analysis.comparison.experiment.training
    last = training.max_epochs - training.max_epochs % training.evaluate_every
    return sum(epoch >= last > 0 for epoch in result.best_epochs)


def learning_note(analysis: Analysis, result: MethodResult) -> str:
    """Return one phrase about a method that did not learn, or did not finish; "" if it did both."""
    runs = len(result.best_epochs)
    if runs and 2 * (kept := kept_start(result)) > runs:
        return f"kept its starting point in {kept} of {runs} runs: training did not help"
    if runs and 2 * (last := still_learning(analysis, result)) > runs:
        return f"was still improving at the end of {last} of {runs} runs: train longer"
    return ""


def learning_notes(analysis: Analysis) -> list[str]:
    """Return sentences about methods that kept their start, and about methods that need more training."""
    start: list[str] = []
    short: list[str] = []
    for result in analysis.comparison.trained:
        note = learning_note(analysis, result)
        (start if note.startswith("kept") else short).extend([result.method] if note else [])
    found = []
    count = len(analysis.comparison.trained)
    if start:
        its = "its starting point" if len(start) == 1 else "their starting points"
        found.append(f"{_list(start, of=count)} kept {its} in most runs: training did not help.")
    if short:
        were = "was" if len(short) == 1 else "were"
        found.append(f"{_list(short, of=count)} {were} still improving at the end of most runs.")
    return found


def trained_once_note(analysis: Analysis) -> list[str]:
    """Return a sentence if every method was trained once: then no verdict counts the luck of the seeds."""
    counts = [sum(len(repeat.scored) for repeat in result.repeats) for result in analysis.comparison.trained]
    if len(counts) < 2 or max(counts) != 1:
        return []
    return ["Each method was trained once, so the luck of the seeds is not counted (confirm.reruns: 3)."]


def _list(names: list[str], *, of: int) -> str:
    if 1 < len(names) == of:
        return "All"
    if len(names) > 3:
        return f"{len(names)} methods"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def advise(analysis: Analysis) -> str:
    """Return the change that would make the verdicts most certain, as a sentence; "" if nothing is known."""
    experiment = analysis.comparison.experiment
    table = build_score_table(analysis.confirmations, analysis.setting, analysis.metric_info)
    if table is None or len(analysis.means) < 2:
        return ""
    try:
        parts = variance_components(table)
    except UsageError:
        return ""  # trained once, which `trained_once_note` says
    repeats, reruns = experiment.search.repeats, experiment.confirm.reruns
    classes = 1 if table.class_shares is None else len(table.class_shares)
    runs = repeats * reruns
    sources = {
        "More test classes would help most.": parts.classes / classes,
        f"More reruns would help most (confirm.reruns: {2 * reruns}).": (
            parts.seeds / runs + parts.residual / (classes * runs)
        ),
        f"More searches would help most (search.repeats: {2 * repeats}).": (parts.search or 0.0) / repeats,
    }
    return max(sources, key=lambda text: sources[text])
