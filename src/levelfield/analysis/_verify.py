"""Consistency checks of the records of an experiment: ledger, selections, trials, runs, test scores.

The checks find what the directory itself proves wrong: a truncated ledger, a selection that the trials do not
support, a run whose name does not follow from its seed. They do not find a consistent rewrite of all records
by a program; that needs an anchor or a plan in another place (:mod:`levelfield.analysis._verify_outside`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from levelfield.analysis._confirmation import read_confirmation
from levelfield.analysis._results import Comparison, MethodResult, Repeat, read_comparison
from levelfield.analysis._verify_curves import check_curves
from levelfield.analysis._verify_dropped import check_dropped_results
from levelfield.analysis._verify_gaps import find_unchecked, find_unshown
from levelfield.analysis._verify_identity import check_identities
from levelfield.analysis._verify_ledger import (
    check_chain,
    check_frozen_first,
    check_openings,
    check_seals,
    check_selection_digests,
)
from levelfield.analysis._verify_numbers import same_number
from levelfield.analysis._verify_reruns import (
    check_counts,
    check_query_classes,
    check_rerun_files,
    check_runs_of_reruns,
)
from levelfield.analysis._verify_settings import check_settings
from levelfield.analysis._verify_times import check_times
from levelfield.records import (
    SETTINGS,
    LedgerLine,
    Selection,
    Store,
    dump_experiment,
    select,
)


def verify(root: str | Path) -> list[str]:
    """Return one sentence for each inconsistency of the records; an empty list if there is none.

    Args:
        root: Experiment directory, finished or not.
    """
    store = Store(Path(root))
    comparison = read_comparison(root)
    trials = comparison.experiment.search.trials
    problems = [
        *store.archive_problems(),
        *check_chain(store),
        *_check_index(store, comparison),
        *check_openings(store, comparison),
        *check_frozen_first(store),
        *check_selection_digests(store),
        *check_seals(store),
        *check_times(store, comparison)[0],
        *check_settings(comparison),
        *_check_selections(comparison),
        *_check_renamed_methods(store),
        *(problem for result in comparison.trained for problem in _check_search(store, result, trials)),
        *_check_hidden_trials(store, comparison),
        *(problem for result in comparison.results for problem in _check_scores(root, comparison, result)),
        *(problem for result in comparison.results for problem in check_runs_of_reruns(store, result)),
        *(problem for result in comparison.results for problem in check_rerun_files(store, root, result)),
        *check_counts(comparison),
        *check_identities(store, comparison),
        *check_query_classes(root, comparison),
        *check_curves(store, comparison),
        *check_dropped_results(store, comparison),
        *_check_plugins(store, comparison),
    ]
    return list(dict.fromkeys(problems))


def verify_notes(root: str | Path) -> list[str]:
    """Return sentences about records that are consistent, but that a reader should know of.

    Args:
        root: Experiment directory, finished or not.
    """
    store = Store(Path(root))
    times = check_times(store, read_comparison(root))[1]
    return list(dict.fromkeys((*times, *find_unchecked(root), *find_unshown(root))))


def _check_index(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence if experiment.json differs from the last revision or has a wrong selection."""
    revisions = comparison.revisions
    if not revisions:
        yield "revisions.jsonl is missing: the experiment at the time of the test openings is unknown"
    elif dump_experiment(revisions[-1].experiment) != dump_experiment(comparison.experiment):
        yield "experiment.json is not the last revision of revisions.jsonl: one of them was edited"
    else:
        index, last = store.experiment_record(), revisions[-1]
        found = {"plugins": index.plugins, **index.stated()}
        known = {"plugins": last.plugins, **(last.stated or {})}  # earlier versions state plug-ins only
        for name in sorted(name for name, value in known.items() if found.get(name) != value):
            yield f"experiment.json states other {name} than revisions.jsonl: one of them was edited"
    for result in comparison.results:
        for repeat in result.repeats:
            if repeat.selection.method != result.method:
                yield f"{result.method} is shown with the selection of {repeat.selection.method}"


def _check_selections(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each method whose frozen selection is not the best of its trials."""
    metric = comparison.experiment.training.metric
    metric_info = comparison.metric_infos.get(metric)
    sign = 1 if metric_info is None else metric_info.sign
    for result in comparison.trained:
        for repeat in result.repeats:
            if _chosen(repeat.selection) != _chosen(_select(repeat, sign)):
                yield f"{result.method} was confirmed with a selection that its trials do not give"


def _select(repeat: Repeat, sign: int) -> Selection:
    chosen = repeat.selection
    return select(repeat.trials, method=chosen.method, search=chosen.search or "none", sign=sign)


def _chosen(selection: Selection) -> tuple[object, ...]:
    return selection.trial, selection.hyperparameters, selection.score, selection.failed


def _check_renamed_methods(store: Store) -> Iterator[str]:
    """Yield a sentence for each search that was confirmed under several method names."""
    names: dict[str, list[str]] = {}
    for selection in store.selections().values():
        if selection.search is not None and selection.method not in names.setdefault(selection.search, []):
            names[selection.search].append(selection.method)
    for same in names.values():
        if len(same) > 1:
            yield f"{' and '.join(same)} are one recipe under {len(same)} names"


def _check_search(store: Store, result: MethodResult, trials: int) -> Iterator[str]:
    """Yield a sentence for each trial that differs from its folds or runs, and for each wrong digest."""
    for repeat in result.repeats:
        planned = trials if repeat.search is None or repeat.search.space else 1
        if repeat.search is not None and repeat.search.sampler != "grid" and len(repeat.trials) < planned:
            yield f"the search of {result.method} has {len(repeat.trials)} of {planned} trials on record"
        if repeat.search is not None and repeat.search.search_id != repeat.selection.search:
            yield f"the search of {result.method} does not match its digest"
        for number, trial in enumerate(repeat.trials):
            if trial.number != number:
                yield f"trial {number + 1} of {result.method} is a copy of trial {trial.number + 1}"
            folds = [score for score in trial.fold_scores if score is not None]
            complete = trial.score is not None and len(folds) == len(trial.fold_scores)
            if complete and folds and not same_number(trial.score, float(np.mean(folds))):
                yield f"trial {trial.number + 1} of {result.method} does not have the mean score of its folds"
            for run, score in zip(trial.runs, trial.fold_scores, strict=False):
                directory = store.run(run)
                recorded = directory.result()
                if recorded is None:
                    continue  # published records may not have the runs
                spec = directory.spec()
                if spec.run_id != run:
                    yield f"run {run} of {result.method} does not match its digest"
                if spec.hyperparameters != {**repeat.fixed, **trial.hyperparameters}:
                    yield f"trial {trial.number + 1} of {result.method} has other values than its run"
                if not same_number(recorded.validation.get(spec.training.metric), score):
                    yield f"trial {trial.number + 1} of {result.method} has another score than its run"


def _check_hidden_trials(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each search with more trials than any revision of the experiment asked for."""
    asked = max((revision.experiment.search.trials for revision in comparison.revisions), default=None)
    for result in comparison.trained:
        for repeat in result.repeats:
            found = len(store.trials(repeat.selection.search)) if repeat.selection.search else 0
            if asked is not None and found > asked:
                yield f"the search of {result.method} has {found} trials on record, {asked} were asked for"


def _check_scores(root: str | Path, comparison: Comparison, result: MethodResult) -> Iterator[str]:
    """Yield a sentence for each score of a rerun that is not the mean of its queries."""
    confirmation = read_confirmation(root, result)
    for setting in SETTINGS:
        for metric in comparison.metrics:
            queries = confirmation.per_query(setting, metric)
            if queries is None:
                continue
            for number, score in confirmation.scores(setting, metric).items():
                if not same_number(score, float(np.nanmean(queries[number]))):
                    yield (
                        f"rerun {number[1] + 1} of {result.method}: the {setting} {metric} is not the mean "
                        "of its queries"
                    )


def _check_plugins(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each plug-in that changed or is missing since the test set was last opened."""
    current = {repeat.confirmation for result in comparison.results for repeat in result.repeats}
    last: dict[str, LedgerLine] = {}
    for line in store.ledger():
        if line.selection in current:
            last[line.selection] = line
    recorded = store.experiment_record().plugins
    changed = {
        name
        for line in last.values()
        for name in line.plugins
        if name in recorded and recorded[name] != line.plugins[name]
    }
    for name in sorted(changed):
        yield f"plug-in {name} has changed since the test set was opened"
    # the process may have loaded plug-ins of other experiments; only those of this experiment count
    once = {name for revision in comparison.revisions for name in revision.plugins}
    for name in sorted({name for line in last.values() for name in line.plugins} & once - set(recorded)):
        yield f"plug-in {name} was loaded when the test set was opened, but is not part of the experiment now"
