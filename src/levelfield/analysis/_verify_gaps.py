"""Checks that `levelfield verify` could not make, because records are missing."""

from __future__ import annotations

from pathlib import Path

from levelfield.analysis._results import read_comparison
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
