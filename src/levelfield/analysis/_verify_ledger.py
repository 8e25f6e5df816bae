"""Checks of the ledger: it is complete, and each score has an opening, a selection and a seal."""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.analysis._results import Comparison
from levelfield.core.errors import RunError
from levelfield.records import (
    EVENT_FROZEN,
    EVENT_LEAKY,
    EVENT_SEALED,
    PLAN_SEAL,
    Store,
    collect_seals,
    compute_record_seal,
    seals_records,
)


def check_chain(store: Store) -> Iterator[str]:
    """Yield a sentence for each line that does not follow from the one before, and for a wrong count."""
    lines = store.ledger()
    try:
        head = store.ledger_head()
    except RunError as error:
        yield str(error)
        return
    before = ""
    for number, line in enumerate(lines, 1):
        if line.previous != before:
            yield f"ledger line {number} does not follow from the line before: a line was edited or removed"
        before = line.line_id
    if head is None:
        if lines:
            yield "ledger.head.json is missing: the ledger may have been cut; restore it from a copy"
        return
    if len(lines) < head.lines:
        yield f"the ledger has {len(lines)} of {head.lines} lines: it was cut"
    elif not head.fits(lines):
        yield f"ledger line {head.lines} is not the one that was written: it was edited"
    elif len(lines) > head.lines + 1:  # a killed process leaves at most one line that the head does not count
        yield f"ledger.head.json counts {head.lines} of {len(lines)} lines: it is an older copy"


def check_openings(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each score without an opening and each opening without a selection or scores.

    Args:
        store: Records of the experiment.
        comparison: Results of the experiment.
    """
    lines = [line for line in store.ledger() if line.event != EVENT_SEALED]
    frozen = {name.rpartition("-")[2] for name in store.selections()}
    names = {repeat.confirmation: r.method for r in comparison.results for repeat in r.repeats}
    confirmed = store.confirmed()
    for selection, reruns in confirmed.items():
        own = [line for line in lines if line.selection == selection]
        name = names.get(selection, selection)
        if not own:
            yield f"{name} has test scores, but the ledger has no opening of the test set for them"
        elif unlisted := set(reruns) - {rerun for line in own for rerun in line.reruns}:
            yield f"the ledger has no opening of the test set for rerun {_join_numbers(unlisted)} of {name}"
    for line in lines:
        if line.selection and line.selection not in frozen:
            yield f"the test set was opened for a selection of {line.method} that is not on record"
        if missing := set(line.reruns) - set(confirmed.get(line.selection, ())):
            yield (
                f"the test set was opened for rerun {_join_numbers(missing)} of {line.method}, but its "
                "scores are not on record: deleted, or the run is not finished (resume with `levelfield run`)"
            )
    stamped = any(line.event == EVENT_LEAKY for line in lines)
    if comparison.leaky != stamped:
        yield "the ledger and experiment.json disagree on whether the experiment is leaky"


def check_seals(store: Store) -> Iterator[str]:
    """Yield a sentence for each sealed record that changed or is missing, and each score without a seal."""
    lines = store.ledger()
    for name, value in dict.fromkeys(seal for line in lines for seal in line.sealed.items()):
        if seals_records(name) and compute_record_seal(store, name) != value:
            yield f"{_name_records(name)} was changed after the selections were frozen"
    sealed, waiting = collect_seals(lines)
    for name, value in sealed.items():
        if seals_records(name) or name == PLAN_SEAL:
            continue
        found = store.seal(name)
        if found is None:
            yield f"confirmations/{name} was sealed and is missing"
        elif found != value:
            yield f"confirmations/{name} was changed after it was sealed"
    arrays = [name.replace(".json", ".safetensors") for name in sealed if name.endswith(".json")]
    for name in (*waiting, *arrays):
        if name not in sealed and store.seal(name) is not None:
            yield (
                f"confirmations/{name} has no seal in the ledger: its line was removed, or the run is not "
                "finished (resume with `levelfield run`)"
            )


def check_frozen_first(store: Store) -> Iterator[str]:
    """Yield a sentence for each opening that the chain has before the selection was frozen.

    Ledgers of earlier versions have no line for frozen selections; nothing is asked of them.
    """
    lines = store.ledger()
    if not any(line.event == EVENT_FROZEN for line in lines):
        return
    frozen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if line.event == EVENT_FROZEN:
            frozen |= {name.rpartition("-")[2] for name in line.sealed if name.startswith("selections/")}
        elif line.selection and line.selection not in frozen:
            yield f"ledger line {number} opens the test set for {line.method} before its selection was frozen"


def _name_records(name: str) -> str:
    kind, _, rest = name.partition("/")
    if kind == "revisions":
        return "revisions.jsonl"
    return f"selection {rest}" if kind == "selections" else f"a trial of search {rest.rpartition('/')[0]}"


def check_selection_digests(store: Store) -> Iterator[str]:
    """Yield a sentence for each selection whose content does not match its digest."""
    for name, selection in store.selections().items():
        if not name.endswith(selection.selection_id):
            yield f"selection {name}.json was changed after it was frozen"


def _join_numbers(reruns: set[int]) -> str:
    return ", ".join(str(rerun + 1) for rerun in sorted(reruns))
