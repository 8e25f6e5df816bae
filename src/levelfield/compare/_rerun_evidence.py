"""Whether each rerun has what its scores come from: runs of its own, values of queries, their classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from levelfield.compare._confirmation import read_confirmation
from levelfield.compare._results import Comparison, Result
from levelfield.records import Store


def reruns_of_others(store: Store, result: Result) -> Iterator[str]:
    """A rerun's scores are of runs of this very choice, and of no other rerun's."""
    seen: dict[str, int] = {}
    kept = bool(store.runs())  # a published folder may leave the runs out
    for repeat in result.repeats:
        for number, rerun in repeat.reruns.items():
            for name in rerun.runs:
                if name in seen:
                    yield f"rerun {number + 1} of {result.method} is a copy of rerun {seen[name] + 1}"
                run = store.run(name)
                if kept and run.result() is None:
                    yield f"rerun {number + 1} of {result.method} has scores of runs that are not on record"
                if repeat.search is None or run.result() is None:
                    continue
                spec = run.spec()
                if spec.run_id != name:
                    yield f"run {name} of {result.method} is not the one that its name says"
                own = ({**repeat.fixed, **repeat.selection.hyperparameters}, repeat.search.run.recipe)
                if (spec.hyperparameters, spec.recipe) != own:
                    yield f"rerun {number + 1} of {result.method} has the scores of another choice"
            seen |= dict.fromkeys(rerun.runs, number)


def without_evidence(store: Store, root: str | Path, result: Result) -> Iterator[str]:
    """A rerun that failed has a run that failed; one that is scored has the values of its queries."""
    confirmation = read_confirmation(root, result)
    if confirmation.arrays:
        for _, number in sorted(set(confirmation.reruns) - set(confirmation.arrays)):
            yield f"rerun {number + 1} of {result.method} has scores, but values of its queries are missing"
    for repeat in result.repeats:
        for number, rerun in repeat.reruns.items():
            if rerun.failed is None:
                continue
            ended = [run.result() for run in store.runs()]  # a published folder may leave the runs out
            known = {found.reason for found in ended if found is not None and found.status != "complete"}
            scored = store.rerun_file(repeat.confirmation, number).with_suffix(".safetensors").exists()
            if scored or (ended and rerun.failed not in known):
                yield f"rerun {number + 1} of {result.method} is said to have failed, but no run of it has"


def classes_differ(root: str | Path, comparison: Comparison) -> Iterator[str]:
    """All methods were asked the same queries; verdicts count their classes as chance."""
    confirmations = [read_confirmation(root, result) for result in comparison.results]
    if len({tuple(labels) for c in confirmations for labels in c.every_class_list()}) > 1:
        yield "the classes of the test queries are not the same in all reruns"
