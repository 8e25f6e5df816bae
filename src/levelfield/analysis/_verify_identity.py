"""Check of run identities: a run is named by the digest of its spec, so the name itself proves the spec.

Seeds follow from the experiment's seed, the number of the search, the number of the trial or rerun, and the
fold. They are the same for every method. So the name of each run of a trial or rerun can be computed from the
record of its search, also where the run itself is not on record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from levelfield.analysis._results import Comparison, MethodResult, Repeat
from levelfield.analysis._verify_numbers import same_number
from levelfield.core.seeds import run_seed
from levelfield.records import Rerun, RunResult, RunSpec, Search, Store, Trial


def check_identities(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each trial and rerun whose runs are not those that its number and values give."""
    folds = _count_folds(comparison)
    for result in comparison.trained:
        for repeat in result.repeats:
            if repeat.search is None:
                continue
            for trial in repeat.trials:
                yield from _check_trial(repeat.search, trial, result.method, folds)
                yield from _check_outcome(store, repeat.search, trial, result.method)
            for number, rerun in repeat.reruns.items():
                if rerun.failed is None and rerun.runs:
                    yield from _check_rerun(store, repeat, number, result.method, folds)
    for result in comparison.results:
        yield from _check_means(result, folds)


def expected_spec(search: Search, stage: str, number: int, fold: int, values: Mapping[str, Any]) -> RunSpec:
    """Return the spec of a run of a search; its digest is the name of the run.

    Args:
        search: Record of the search.
        stage: "search" or "confirm".
        number: Number of the trial or rerun.
        fold: Number of the fold.
        values: Hyperparameters of the trial or selection.
    """
    seed = run_seed(search.run.seed, stage, number, fold, repeat=search.repeat)
    hyperparameters = {**search.run.hyperparameters, **values}
    changes: dict[str, Any] = {"fold": fold, "seed": seed, "hyperparameters": hyperparameters}
    if stage == "search" and search.max_epochs is not None:  # trials may be shorter than the confirmation
        changes["training"] = search.run.training.model_copy(update={"max_epochs": search.max_epochs})
    return search.run.model_copy(update=changes)


def _count_folds(comparison: Comparison) -> int:
    """Return the number of folds: the largest number of runs of any trial or rerun."""
    repeats = [repeat for result in comparison.trained for repeat in result.repeats]
    trials = [len(trial.runs) for repeat in repeats for trial in repeat.trials]
    return max(trials + [len(rerun.runs) for repeat in repeats for rerun in repeat.scored], default=0)


def _check_trial(search: Search, trial: Trial, method: str, folds: int) -> Iterator[str]:
    name = f"trial {trial.number + 1} of {method}"
    space = search.dimensions()
    if trial.runs and trial.hyperparameters.keys() != space.keys():
        yield f"{name} has other hyperparameters than its search space"
    elif not all(space[key].contains(value) for key, value in trial.hyperparameters.items() if key in space):
        yield f"{name} has hyperparameters outside its search space"
    if trial.number == 0 and search.first_point is not None and trial.hyperparameters != search.first_point:
        yield f"{name} does not start from the point that its search prescribes"
    if trial.score is not None and len(trial.runs) != folds:
        yield f"{name} has {len(trial.runs)} of {folds} folds"
    found = [
        expected_spec(search, "search", trial.number, fold, trial.hyperparameters).run_id
        for fold in range(len(trial.runs))
    ]
    yield from _compare(found, trial.runs, name)


def _check_outcome(store: Store, search: Search, trial: Trial, method: str) -> Iterator[str]:
    """Yield a sentence for a trial that is called failed, pruned or collapsed, but is not.

    Otherwise the winner could be removed before the selections are frozen and sealed.
    """
    name = f"trial {trial.number + 1} of {method}"
    failed = None in trial.fold_scores
    if len(trial.fold_scores) != len(trial.runs):
        yield f"{name} has {len(trial.fold_scores)} scores of {len(trial.runs)} folds"
    elif trial.pruned and not search.prune:
        yield f"{name} is called pruned, but its search does not prune"
    elif trial.score is not None and (failed or trial.pruned):
        yield f"{name} has a score, but is called failed or pruned"
    elif trial.score is None and not (failed or trial.pruned):
        yield f"{name} has no score, but no fold of it failed"
    if trial.collapse != _first_collapse([store.run(run).result() for run in trial.runs], trial.collapse):
        yield f"{name} hides or invents a collapse: its runs say otherwise"


def _check_rerun(store: Store, repeat: Repeat, number: int, method: str, folds: int) -> Iterator[str]:
    assert repeat.search is not None
    rerun, name = repeat.reruns[number], f"rerun {number + 1} of {method}"
    if len(rerun.runs) != folds:
        yield f"{name} has {len(rerun.runs)} of {folds} folds"
    values = repeat.selection.hyperparameters
    found = [
        expected_spec(repeat.search, "confirm", number, fold, values).run_id
        for fold in range(len(rerun.runs))
    ]
    yield from _compare(found, rerun.runs, name)
    results = [store.run(run).result() for run in rerun.runs]
    known = [result.best_epoch for result in results if result is not None]
    if len(known) == len(rerun.runs) and list(rerun.best_epochs) != known:
        yield f"{name} has other best epochs than its runs"
    if rerun.failed is None and rerun.collapse != _first_collapse(results, rerun.collapse):
        yield f"{name} hides or invents a collapse: its runs say otherwise"


def _first_collapse(results: Sequence[RunResult | None], stated: str) -> str:
    """Return the diagnosis that the runs give; the stated one if some runs are not on record."""
    if not results or None in results:
        return stated
    return next((result.collapse for result in results if result is not None and result.collapse), "")


def _compare(expected: Sequence[str], recorded: Sequence[str], name: str) -> Iterator[str]:
    wrong = [fold for fold, pair in enumerate(zip(expected, recorded, strict=True)) if pair[0] != pair[1]]
    if wrong:
        yield (
            f"{name} does not come from the runs that its search, number, seed and hyperparameters give "
            f"(fold {', '.join(str(fold + 1) for fold in wrong)}): edited, renumbered or taken from elsewhere"
        )


def _check_means(result: MethodResult, folds: int) -> Iterator[str]:
    """Yield a sentence for each rerun whose separated scores are not the means of its folds."""
    for repeat in result.repeats:
        for number, rerun in repeat.reruns.items():
            if rerun.failed is None and rerun.folds and not _is_mean_of_folds(rerun):
                name = f"rerun {number + 1} of {result.method}"
                yield f"{name}: the separated scores are not the means of the folds"


def _is_mean_of_folds(rerun: Rerun) -> bool:
    return all(
        same_number(score, fmean(fold[metric] for fold in rerun.folds))
        for metric, score in rerun.separated.items()
        if all(metric in fold for fold in rerun.folds)
    )
