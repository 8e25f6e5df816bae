"""Whether the ledger is whole and fits what was scored: every score has opening, selection and seal."""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.compare._results import Comparison
from levelfield.errors import RunError
from levelfield.records import FEEDBACK, SEALED, Store, read_selection, seal_of, seals


def is_chained(store: Store) -> bool:
    """Whether lines hold the hash of the one before: not in schema 1, if a folder is what it says."""
    lines = store.ledger()
    return store.schema_version() != 1 or store.ledger_head_file.exists() or any(x.previous for x in lines)


def broken_chain(store: Store) -> Iterator[str]:
    """Each line follows from the one before, and the head counts them."""
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
    elif len(lines) > head.lines + 1:  # a kill leaves one line at most that the head does not count
        yield f"ledger.head.json counts {head.lines} of {len(lines)} lines: it is an older copy"


def openings(store: Store, comparison: Comparison, *, listed: bool) -> Iterator[str]:
    """Every scored rerun has its opening, every opening its selection and its scores, a leak its stamp.

    Args:
        store: The experiment's folder.
        comparison: What it holds.
        listed: Whether lines name the reruns that the test set was opened for; those of schema 1 do not.
    """
    lines = [line for line in store.ledger() if line.event != SEALED]
    frozen = {file.stem.rpartition("-")[2] for file in store.selection_files()}
    names = {repeat.confirmation: r.method for r in comparison.results for repeat in r.repeats}
    confirmed = store.confirmed()
    for selection, reruns in confirmed.items():
        own = [line for line in lines if line.selection == selection]
        name = names.get(selection, selection)
        if not own:
            yield f"test scores of {name} are on record, but no opening of the test set for them"
        elif listed and (unlisted := set(reruns) - {rerun for line in own for rerun in line.reruns}):
            yield f"no opening of the test set was noted for rerun {_shown(unlisted)} of {name}"
    for line in lines:
        if line.selection and line.selection not in frozen:
            yield f"the test set was opened for a selection of {line.method} that is not on record"
        if missing := set(line.reruns) - set(confirmed.get(line.selection, ())):
            yield (
                f"the test set was opened for rerun {_shown(missing)} of {line.method}, whose scores are not "
                "on record: deleted, or the run is not finished (the same `levelfield run` command goes on)"
            )
    stamped = any(line.event == FEEDBACK for line in lines)
    if comparison.leaky != stamped:
        yield "the experiment is leaky by its ledger or its index, but not by both"


def broken_seals(store: Store) -> Iterator[str]:
    """Scores, and values per query, are those that were computed. Older records are not sealed."""
    sealed, _ = seals(store.ledger())
    for name, value in sealed.items():
        file = store.root / "confirmations" / name
        if file.exists() and seal_of(file) != value:
            yield f"confirmations/{name} was changed after it was sealed"


def edited_selections(store: Store) -> Iterator[str]:
    """A frozen selection is what its name says; schema 1 made its names otherwise."""
    for file in store.selection_files():
        if not file.stem.endswith(read_selection(file).selection_id):
            yield f"selection {file.name} was changed after it was frozen"


def _shown(reruns: set[int]) -> str:
    return ", ".join(str(rerun + 1) for rerun in sorted(reruns))
