"""Reuse of finished trials: copies of trials and their runs from another experiment or an archive."""

from __future__ import annotations

from collections.abc import Iterable

from levelfield.core.errors import RunError
from levelfield.records._identity import Search
from levelfield.records._store import Store


def reuse_trials(store: Store, source: Store, searches: Iterable[Search]) -> int:
    """Copy the trials that ``source`` has of these searches, and return the number of new ones.

    The digest of a search covers everything that its trials depend on. A trial is copied with its runs,
    without weights and logs, if all of its runs are on record. Trials that ``store`` has are kept.

    Args:
        store: Open experiment directory.
        source: Experiment directory or archive.
        searches: Searches of the experiment.
    """
    source.check_schema_version()
    copied = 0
    for search in searches:
        known = len(store.trials(search.search_id))
        for trial in source.trials(search.search_id)[known:]:
            if not all(_copy_run(store, source, run) for run in trial.runs):
                break
            store.write_search(search)
            store.write_trial(search.search_id, trial)
            copied += 1
    return copied


def _copy_run(store: Store, source: Store, run_id: str) -> bool:
    """Copy the records of a finished run; return False if it is not on record."""
    old, new = source.run(run_id), store.run(run_id)
    if new.result() is not None:
        return True
    result = old.result()
    if result is None:
        return False
    spec, provenance = old.spec(), old.provenance()
    if spec.run_id != run_id:
        raise RunError(f"{source.root}: run {run_id} has the spec of another run; get a new copy")
    new.begin(spec)
    with new.lock():
        if provenance is None:
            new.write_failure(result)
        else:
            new.finish(result, provenance)
    return True
