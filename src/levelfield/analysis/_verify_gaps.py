"""Notes of `levelfield verify`: checks that it could not make, and records that are not shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from levelfield.analysis._results import Comparison, read_comparison
from levelfield.records import Store

SHOWN = 3  # trials that are named; more are only counted


def find_unchecked(root: str | Path) -> list[str]:
    """Return one sentence for each check that :func:`verify` could not make, because records are missing.

    Args:
        root: Experiment directory, or an archive of it.
    """
    store, comparison = Store(Path(root)), read_comparison(root)
    recorded = {run.path.name for run in store.runs() if run.result() is not None}
    trials = [
        (f"trial {trial.number + 1} of {result.method}", set(trial.runs) <= recorded)
        for result in comparison.trained
        for repeat in result.repeats
        for trial in repeat.trials
    ]
    missing = [name for name, complete in trials if not complete]
    if not missing:
        return []
    named = f" ({', '.join(missing)})" if len(missing) <= SHOWN else ""
    return [
        f"{len(missing)} of {len(trials)} trials have no runs on record{named}: their scores were not "
        "compared with their runs"
    ]


def find_unshown(root: str | Path) -> list[str]:
    """Return sentences on openings and runs on record that are not part of the experiment as it is now.

    They come from an earlier revision, such as another seed, or from a search that was left out.

    Args:
        root: Experiment directory, or an archive of it.
    """
    store, comparison = Store(Path(root)), read_comparison(root)
    shown = {repeat.confirmation for result in comparison.results for repeat in result.repeats}
    opened = {line.selection for line in comparison.ledger if line.selection} - shown
    found = []
    if opened:
        found.append(
            f"the test set was opened for {len(opened)} more selections, which the experiment no longer shows"
        )
    if comparison.ledger:  # else their trials are not on record yet
        known = set(_named_runs(comparison))
        rest = [run for run in store.runs() if run.path.name not in known and run.result() is not None]
        if rest:
            found.append(
                f"{len(rest)} finished runs on record belong to no trial or rerun that the experiment shows"
            )
    return found


def _named_runs(comparison: Comparison) -> Iterator[str]:
    for result in comparison.results:
        for repeat in result.repeats:
            for trial in repeat.trials:
                yield from trial.runs
            for rerun in repeat.reruns.values():
                yield from rerun.runs
