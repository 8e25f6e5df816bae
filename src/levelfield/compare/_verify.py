"""Whether the records of an experiment fit together: ledger, selections, trials, runs, test scores.

It finds what a mistake or a temptation leaves behind: a ledger that was cut, a choice that the trials do not
support, a score that the queries do not give. Who rewrites every record with a program of their own is not
found; that needs a copy of the ledger elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from levelfield.compare._confirmation import read_confirmation
from levelfield.compare._left_out import left_out
from levelfield.compare._rerun_evidence import classes_differ, reruns_of_others, without_evidence
from levelfield.compare._results import Comparison, Repeat, Result, collect
from levelfield.compare._verify_ledger import (
    broken_chain,
    broken_seals,
    edited_selections,
    is_chained,
    openings,
)
from levelfield.config import Experiment
from levelfield.records import (
    SETTINGS,
    LedgerLine,
    RunSpec,
    Selection,
    Store,
    experiment_record,
    read_selection,
    select,
)

TOLERANCE = 1e-6  # values per query are kept in 32 bits


def verify(root: str | Path) -> list[str]:
    """Every finding in one sentence; none if the records fit together.

    Args:
        root: The folder that ``levelfield run`` wrote, finished or not.
    """
    store = Store(Path(root))
    comparison = collect(root)
    chained = is_chained(store)
    trials = comparison.experiment.search.trials
    findings = [
        *(broken_chain(store) if chained else ()),
        *_index(store, comparison),
        *openings(store, comparison, listed=chained),
        *(edited_selections(store) if chained else ()),
        *broken_seals(store),
        *_selections(comparison),
        *_renamed(store),
        *(finding for result in comparison.trained for finding in _search_records(store, result, trials)),
        *(finding for result in comparison.results for finding in _scores(root, comparison, result)),
        *(finding for result in comparison.results for finding in reruns_of_others(store, result)),
        *(finding for result in comparison.results for finding in without_evidence(store, root, result)),
        *classes_differ(root, comparison),
        *left_out(store, comparison),
        *_plugins(store, comparison),
    ]
    return list(dict.fromkeys(findings))


def _index(store: Store, comparison: Comparison) -> Iterator[str]:
    """The index says what the last revision says, and shows each method's own selection."""
    revisions = comparison.revisions
    if not revisions:
        yield "revisions.jsonl is missing: what the experiment was when the test set was opened is not known"
    elif experiment_record(revisions[-1].experiment) != experiment_record(comparison.experiment):
        yield "experiment.json is not the last revision of revisions.jsonl: one of them was edited"
    for result in comparison.results:
        for repeat in result.repeats:
            if repeat.selection.method != result.method:
                yield f"{result.method} is shown with the selection of {repeat.selection.method}"
            if repeat.search is not None:
                yield from _other_than_said(comparison.experiment, repeat.search.run, result.method)


def _other_than_said(experiment: Experiment, run: RunSpec, method: str) -> Iterator[str]:
    """A method was trained on what the experiment says: on these data, with this network and this metric."""
    claims = {
        "dataset": (experiment.dataset.name, run.data.name),
        "split": (experiment.split.name, run.data.split.name),
        "trunk": (experiment.trunk.name, run.trunk.name),
        "trunk mode": (experiment.trunk.mode, run.trunk.mode),
        "embedding size": (experiment.head.size, run.head.size),
        "metric of the selection": (experiment.training.metric, run.training.metric),
    }
    for what, (said, done) in claims.items():
        if said != done:
            yield f"experiment.json says {what} {said}, but {method} was trained with {done}"


def _selections(comparison: Comparison) -> Iterator[str]:
    """A frozen selection is what the trials give."""
    metric = comparison.experiment.training.metric
    measure = comparison.measures.get(metric)
    sign = -1 if measure is not None and measure.higher_is_better is False else 1
    for result in comparison.trained:
        for repeat in result.repeats:
            if _chosen(repeat.selection) != _chosen(_select(repeat, sign)):
                yield f"{result.method} was confirmed with a choice that its trials do not give"


def _select(repeat: Repeat, sign: int) -> Selection:
    chosen = repeat.selection
    return select(repeat.trials, method=chosen.method, search=chosen.search or "", sign=sign)


def _chosen(selection: Selection) -> tuple[object, ...]:
    return selection.trial, selection.hyperparameters, selection.score, selection.failed


def _renamed(store: Store) -> Iterator[str]:
    """One search under two names is one method that was confirmed twice."""
    names: dict[str, list[str]] = {}
    for file in store.selection_files():
        selection = read_selection(file)
        if selection.search is not None and selection.method not in names.setdefault(selection.search, []):
            names[selection.search].append(selection.method)
    for same in names.values():
        if len(same) > 1:
            yield f"{' and '.join(same)} are one recipe under {len(same)} names"


def _search_records(store: Store, result: Result, trials: int) -> Iterator[str]:
    """Trials are what their folds and runs say; runs and searches are what their names say."""
    for repeat in result.repeats:
        planned = trials if repeat.search is None or repeat.search.space else 1
        if repeat.search is not None and repeat.search.sampler != "grid" and len(repeat.trials) < planned:
            yield f"the search of {result.method} has {len(repeat.trials)} of {planned} trials on record"
        if repeat.search is not None and repeat.search.search_id != repeat.selection.search:
            yield f"the search of {result.method} is not the one that its name says"
        for number, trial in enumerate(repeat.trials):
            if trial.number != number:
                yield f"trial {number + 1} of {result.method} is a copy of trial {trial.number + 1}"
            folds = [score for score in trial.fold_scores if score is not None]
            complete = trial.score is not None and len(folds) == len(trial.fold_scores)
            if complete and folds and not _same(trial.score, float(np.mean(folds))):
                yield f"trial {trial.number + 1} of {result.method} has not the mean score of its folds"
            for run, score in zip(trial.runs, trial.fold_scores, strict=False):
                folder = store.run(run)
                recorded = folder.result()
                if recorded is None:
                    continue  # a published folder may leave the runs out
                spec = folder.spec()
                if spec.run_id != run:
                    yield f"run {run} of {result.method} is not the one that its name says"
                if spec.hyperparameters != {**repeat.fixed, **trial.hyperparameters}:
                    yield f"trial {trial.number + 1} of {result.method} has other values than its run"
                if not _same(recorded.validation.get(spec.training.metric), score):
                    yield f"trial {trial.number + 1} of {result.method} has another score than its run"


def _scores(root: str | Path, comparison: Comparison, result: Result) -> Iterator[str]:
    """A rerun's score is the mean of its queries."""
    confirmation = read_confirmation(root, result)
    for setting in SETTINGS:
        for metric in comparison.metrics:
            queries = confirmation.per_query(setting, metric)
            if queries is None:
                continue
            for number, score in confirmation.scores(setting, metric).items():
                if not _same(score, float(np.nanmean(queries[number]))):
                    yield (
                        f"rerun {number[1] + 1} of {result.method}: the {setting} {metric} is not the mean "
                        "of its queries"
                    )


def _plugins(store: Store, comparison: Comparison) -> Iterator[str]:
    """The plug-ins of the index are those that were loaded when the test set was last opened."""
    current = {repeat.confirmation for result in comparison.results for repeat in result.repeats}
    last: dict[str, LedgerLine] = {}
    for line in store.ledger():
        if line.selection in current:
            last[line.selection] = line
    recorded = store.index().plugins
    changed = {
        name
        for line in last.values()
        for name in line.plugins
        if name in recorded and recorded[name] != line.plugins[name]
    }
    for name in sorted(changed):
        yield f"plug-in {name} has changed since the test set was opened"
    # a process may have loaded others for another experiment; those that were part of this one count
    once = {name for revision in comparison.revisions for name in revision.plugins}
    for name in sorted({name for line in last.values() for name in line.plugins} & once - set(recorded)):
        yield f"plug-in {name} was loaded when the test set was opened, and is no part of the experiment now"


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
