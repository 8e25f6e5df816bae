"""Checks of reruns: each has its own runs, values per query, and the same query classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from levelfield.analysis._confirmation import read_confirmation
from levelfield.analysis._results import Comparison, MethodResult
from levelfield.records import Store


def check_runs_of_reruns(store: Store, result: MethodResult) -> Iterator[str]:
    """Yield a sentence for each rerun whose scores come from another rerun or another selection."""
    seen: dict[str, int] = {}
    kept = bool(store.runs())  # published records may not have the runs
    for repeat in result.repeats:
        for number, rerun in repeat.reruns.items():
            for name in rerun.runs:
                if name in seen:
                    yield f"rerun {number + 1} of {result.method} is a copy of rerun {seen[name] + 1}"
                run = store.run(name)
                if kept and run.result() is None:
                    yield f"rerun {number + 1} of {result.method} has scores from runs that are not on record"
                if repeat.search is None or run.result() is None:
                    continue
                spec = run.spec()
                if spec.run_id != name:
                    yield f"run {name} of {result.method} does not match its digest"
                own = ({**repeat.fixed, **repeat.selection.hyperparameters}, repeat.search.run.recipe)
                if (spec.hyperparameters, spec.recipe) != own:
                    yield f"rerun {number + 1} of {result.method} has the scores of another selection"
            seen |= dict.fromkeys(rerun.runs, number)


def check_rerun_files(store: Store, root: str | Path, result: MethodResult) -> Iterator[str]:
    """Yield a sentence for scored reruns without values per query, and failed reruns without a failed run."""
    confirmation = read_confirmation(root, result)
    if confirmation.arrays:
        for _, number in sorted(set(confirmation.reruns) - set(confirmation.arrays)):
            yield f"rerun {number + 1} of {result.method} has scores, but no values of its queries"
    for repeat in result.repeats:
        for number, rerun in repeat.reruns.items():
            if rerun.failed is None:
                continue
            ended = [run.result() for run in store.runs()]  # published records may not have the runs
            known = {found.reason for found in ended if found is not None and found.status != "complete"}
            scored = store.rerun_arrays(repeat.confirmation, number) is not None
            if scored or (ended and rerun.failed not in known):
                yield f"rerun {number + 1} of {result.method} is recorded as failed, but no run of it failed"


def check_counts(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for fewer searches or reruns than the experiment states, once any rerun has scores."""
    if not any(repeat.reruns for result in comparison.trained for repeat in result.repeats):
        return
    wanted, reruns = comparison.experiment.search.repeats, comparison.experiment.confirm.reruns
    rest = "on record: deleted, or the run is not finished (resume with `levelfield run`)"
    for result in comparison.trained:
        found = len(result.repeats)
        if found < wanted:
            yield f"{result.method} has {found} of {wanted} searches {rest}"
        for number, repeat in enumerate(result.repeats, 1):
            if len(repeat.reruns) < reruns and not repeat.selection.failed:
                search = f"search {number} of " if found > 1 else ""
                yield f"{search}{result.method} has {len(repeat.reruns)} of {reruns} reruns {rest}"


def check_query_classes(root: str | Path, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence if the reruns do not have the same query classes."""
    confirmations = [read_confirmation(root, result) for result in comparison.results]
    if len({tuple(labels) for c in confirmations for labels in c.every_class_list()}) > 1:
        yield "the classes of the test queries differ between reruns"
