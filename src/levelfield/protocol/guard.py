"""Test-set guard: the only code that loads test images.

A permit is granted only for a selection that is frozen on disk. Granting it appends a line to the ledger,
which every report shows. Loading test images requires the permit and verifies it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from levelfield.core.errors import LockedTestSetError, RunError
from levelfield.core.registry import loaded_plugins
from levelfield.data import Dataset
from levelfield.data.views import open_dataset, split_dataset
from levelfield.records import (
    EVENT_FROZEN,
    EVENT_GALLERY,
    EVENT_LEAKY,
    EVENT_MORE_RERUNS,
    EVENT_MORE_SEARCHES,
    EVENT_SEALED,
    DataIdentity,
    LedgerLine,
    PluginIdentity,
    Revision,
    RunSpec,
    Selection,
    Store,
    collect_seals,
    environment,
    log_opening,
    now,
    opening_note,
    read_ledger,
    read_selection,
    seal_records,
)
from levelfield.train import Resources


@dataclass(frozen=True)
class TestPermit:
    """Permission to read the test set for one frozen selection."""

    __test__ = False  # tell pytest that this is not a test class

    selection_file: Path
    selection_id: str
    ledger_file: Path

    @property
    def files(self) -> tuple[Path, Path]:
        """The files needed to verify the permit."""
        return self.selection_file, self.ledger_file

    def verify(self) -> None:
        """Raise unless the frozen selection is unchanged and the ledger records its opening."""
        if not self.selection_file.exists():
            raise LockedTestSetError(
                f"the test set is locked: {self.selection_file} is not frozen yet; run the search first"
            )
        if read_selection(self.selection_file).selection_id != self.selection_id:
            raise LockedTestSetError(
                f"the test set is locked: {self.selection_file} was changed after it was frozen; "
                "restore it, or start again with a new --out directory"
            )
        if not any(line.selection == self.selection_id for line in read_ledger(self.ledger_file)):
            raise LockedTestSetError(
                f"the test set is locked: {self.ledger_file} records no opening; get a permit with open_test"
            )


def open_test(
    store: Store,
    selection_file: Path,
    *,
    reruns: Sequence[int],
    other_metrics: bool = False,
    only_gallery: bool = False,
) -> TestPermit:
    """Grant a permit for a frozen selection and record the opening in the ledger.

    Args:
        store: Records of the experiment.
        selection_file: File of the frozen selection.
        reruns: Numbers of the reruns to score.
        other_metrics: True if the reruns have scores, but not of all requested metrics.
        only_gallery: True if all scores exist and only the arrays of the retrieval gallery are missing.
    """
    if not selection_file.exists():
        raise LockedTestSetError(
            f"the test set is locked: {selection_file} is not frozen yet; run the search first"
        )
    selection = read_selection(selection_file)
    if not selection_file.stem.endswith(selection.selection_id):
        raise LockedTestSetError(
            f"the test set is locked: {selection_file} differs from the selection frozen under that name; "
            "restore it, or start again with a new --out directory"
        )
    own = [line for line in store.ledger() if line.selection == selection.selection_id]
    before = [line for line in own if line.event != EVENT_GALLERY]
    event = EVENT_GALLERY if only_gallery else _opening_event(before, reruns, other_metrics=other_metrics)
    if not before and not only_gallery and _is_added_search(store, selection):
        event = EVENT_MORE_SEARCHES
    note = opening_note(store, selection)
    append_line(store, selection.method, selection.selection_id, event, reruns=tuple(reruns), note=note)
    log_opening(store, selection)
    return TestPermit(selection_file, selection.selection_id, store.ledger_file)


def open_for_gallery(store: Store, selection_file: Path) -> TestPermit:
    """Grant a permit to show test images in the gallery of a confirmed experiment, and record the opening."""
    selection = read_selection(selection_file)
    append_line(store, selection.method, selection.selection_id, EVENT_GALLERY)
    permit = TestPermit(selection_file, selection.selection_id, store.ledger_file)
    permit.verify()
    return permit


def _opening_event(before: Sequence[LedgerLine], reruns: Sequence[int], *, other_metrics: bool) -> str:
    if not before:
        return "opened"
    if other_metrics:
        return "reopened for other metrics"
    announced = {rerun for line in before for rerun in line.reruns}
    return "reopened after an interruption" if set(reruns) <= announced else EVENT_MORE_RERUNS


def _is_added_search(store: Store, selection: Selection) -> bool:
    """Return True if the search was added after the test set had been opened for its method."""
    search = None if selection.search is None else store.search(selection.search)
    openings = [(n, line.time) for n, line in enumerate(store.ledger()) if line.method == selection.method]
    if search is None or search.repeat == 0 or not openings:
        return False
    planned = [
        revision.experiment.search.repeats
        for revision in store.revisions()
        if _is_before(revision, *openings[0])
    ]
    return search.repeat >= max(planned, default=search.repeat + 1)


def _is_before(revision: Revision, line: int, time: str) -> bool:
    """Return True if a revision was recorded before line ``line`` of the ledger.

    The number of lines at that moment decides, because a clock may be set back. Records of older versions
    have only the time.
    """
    return revision.time <= time if revision.ledger_lines is None else revision.ledger_lines <= line


def record_feedback(store: Store) -> None:
    """Record in the ledger that search and selection use the test set on purpose (a leaky split plan)."""
    if not any(line.event == EVENT_LEAKY for line in store.ledger()):
        append_line(store, "all", "", EVENT_LEAKY)


def record_frozen(store: Store) -> None:
    """Record in the ledger that every selection is frozen, with seals of trials, selections and revisions.

    A ledger that began without such a line, in an earlier version, stays without: its openings came before.
    """
    lines = store.ledger()
    if any(line.selection for line in lines) and not any(line.event == EVENT_FROZEN for line in lines):
        return
    known = {name for line in lines for name in line.sealed}  # a seal is never replaced
    new = {name: value for name, value in seal_records(store).items() if name not in known}
    if new:
        append_line(store, "all", "", EVENT_FROZEN, sealed=new)


def seal_scores(store: Store) -> None:
    """Append one ledger line with the digest of every score that was computed since the last seal."""
    _, waiting = collect_seals(store.ledger())
    found = {
        name: seal
        for json_name in waiting
        for name in (json_name, json_name.replace(".json", ".safetensors"))
        if (seal := store.seal(name)) is not None  # a failed rerun has no values per query
    }
    if found:
        append_line(store, "all", "", EVENT_SEALED, sealed=found)


def append_line(
    store: Store,
    method: str,
    selection: str,
    event: str,
    *,
    reruns: tuple[int, ...] = (),
    sealed: Mapping[str, str] | None = None,
    note: str = "",
    departures: Sequence[str] = (),
) -> None:
    """Append a line to the ledger, with the time, the machine and the loaded plug-ins."""
    here = environment()
    store.append_ledger(
        LedgerLine(
            time=now(),
            host=here.host,
            commit=here.commit,
            method=method,
            selection=selection,
            event=event,
            reruns=reruns,
            plugins=loaded_plugins(),
            sealed=dict(sealed or {}),
            note=note,
            departures=tuple(departures),
        )
    )


def test_view(permit: TestPermit, spec: RunSpec, resources: Resources) -> Dataset:
    """Return the test images; raises unless the permit is valid."""
    permit.verify()
    identity = spec.data
    fingerprint, content, test = _load(
        identity.model_dump_json(),
        spec.transform.model_dump_json(),
        resources.dataset_root,
        resources.dataset_content,
    )
    if resources.dataset_content and content != resources.dataset_content:
        raise RunError(
            f"images of dataset {identity.name} have changed since the experiment began; restore them, or "
            "start again with a new --out directory"
        )
    if fingerprint != identity.fingerprint:
        raise RunError(
            f"dataset {identity.name} has changed since the experiment began (fingerprint {fingerprint}, was "
            f"{identity.fingerprint}); restore it, or start again with a new --out directory"
        )
    return test


test_view.__test__ = False  # type: ignore[attr-defined]  # tell pytest that this is not a test


@lru_cache(maxsize=1)
def _load(data: str, transform: str, root: Path | None, content: str) -> tuple[str, str, Dataset]:
    identity = DataIdentity.model_validate_json(data)
    images = PluginIdentity.model_validate_json(transform)
    dataset = open_dataset(
        identity.name,
        identity.options | ({} if root is None else {"root": str(root)}),
        transform=images.name,
        transform_options=images.options,
    )
    plan = split_dataset(dataset, identity.split.name, identity.split.options)
    return dataset.fingerprint, dataset.content, dataset.select(plan.test)
