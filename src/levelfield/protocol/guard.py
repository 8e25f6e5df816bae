"""The test-set guard: the one place where test images can be reached.

A permit is granted only for a selection that lies frozen on the disk. Granting it writes a line to the
ledger, which every report shows. Whoever loads test images shows the permit, and it is checked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from levelfield.data import Dataset
from levelfield.data.views import open_dataset, split_dataset
from levelfield.errors import LockedTestSetError, RunError
from levelfield.records import (
    FEEDBACK,
    MORE_RERUNS,
    MORE_SEARCHES,
    PICTURES,
    SEALED,
    DataIdentity,
    LedgerLine,
    PluginIdentity,
    RunSpec,
    Selection,
    Store,
    environment,
    now,
    read_ledger,
    read_selection,
    seal_of,
    seals,
)
from levelfield.registry import loaded_plugins
from levelfield.train import Resources


@dataclass(frozen=True)
class TestPermit:
    """Leave to read the test set for one frozen selection."""

    __test__ = False  # not a test class, whatever its name begins with

    selection_file: Path
    selection_id: str
    ledger_file: Path

    @property
    def files(self) -> tuple[Path, Path]:
        """By which it is verified, wherever that is."""
        return self.selection_file, self.ledger_file

    def verify(self) -> None:
        """Raise unless the selection is frozen as it was, and its opening is in the ledger."""
        if not self.selection_file.exists():
            raise LockedTestSetError(f"the test set is locked: {self.selection_file} is not frozen yet")
        if read_selection(self.selection_file).selection_id != self.selection_id:
            raise LockedTestSetError(
                f"the test set is locked: {self.selection_file} was changed after it was frozen; "
                "restore it, or start again with a new --out folder"
            )
        if not any(line.selection == self.selection_id for line in read_ledger(self.ledger_file)):
            raise LockedTestSetError(f"the test set is locked: no opening for it in {self.ledger_file}")


def open_test(
    store: Store,
    selection_file: Path,
    *,
    reruns: Sequence[int],
    other_metrics: bool = False,
    only_pictures: bool = False,
) -> TestPermit:
    """Grant a permit for a frozen selection, and record the opening.

    Args:
        store: Whose ledger it is.
        selection_file: The frozen selection.
        reruns: Which reruns are to be scored.
        other_metrics: Whether scores are there, but not of the metrics that are asked for now.
        only_pictures: Whether all scores are there, and only the neighbours to look at are missing.
    """
    if not selection_file.exists():
        raise LockedTestSetError(f"the test set is locked: {selection_file} is not frozen yet")
    selection = read_selection(selection_file)
    if not selection_file.stem.endswith(selection.selection_id):
        raise LockedTestSetError(
            f"the test set is locked: {selection_file} is not what was frozen under that name; "
            "restore it, or start again with a new --out folder"
        )
    own = [line for line in store.ledger() if line.selection == selection.selection_id]
    before = [line for line in own if line.event != PICTURES]
    event = PICTURES if only_pictures else _why_opened(before, reruns, other_metrics=other_metrics)
    if not before and not only_pictures and _is_added_search(store, selection):
        event = MORE_SEARCHES
    _note(store, selection.method, selection.selection_id, event, reruns=tuple(reruns))
    return TestPermit(selection_file, selection.selection_id, store.ledger_file)


def open_for_pictures(store: Store, selection_file: Path) -> TestPermit:
    """Grant a permit to show some test images of an experiment that is confirmed, and record the opening."""
    selection = read_selection(selection_file)
    _note(store, selection.method, selection.selection_id, PICTURES)
    permit = TestPermit(selection_file, selection.selection_id, store.ledger_file)
    permit.verify()
    return permit


def _why_opened(before: Sequence[LedgerLine], reruns: Sequence[int], *, other_metrics: bool) -> str:
    if not before:
        return "opened"
    if other_metrics:
        return "reopened for other metrics"
    announced = {rerun for line in before for rerun in line.reruns}
    return "reopened after an interruption" if set(reruns) <= announced else MORE_RERUNS


def _is_added_search(store: Store, selection: Selection) -> bool:
    """Whether the experiment had fewer searches per method when the test set was opened for this method."""
    search = None if selection.search is None else store.search(selection.search)
    looks = [line.time for line in store.ledger() if line.method == selection.method]
    if search is None or search.repeat == 0 or not looks:
        return False
    planned = [
        revision.experiment.search.repeats for revision in store.revisions() if revision.time <= looks[0]
    ]
    return search.repeat >= max(planned, default=search.repeat + 1)


def record_feedback(store: Store) -> None:
    """Note that the experiment's split plan shows the test set to search and selection, on purpose."""
    if not any(line.event == FEEDBACK for line in store.ledger()):
        _note(store, "all", "", FEEDBACK)


def seal_scores(store: Store) -> None:
    """Note the hash of every score that was computed since the last seal, in one line for all."""
    _, waiting = seals(store.ledger())
    folder = store.root / "confirmations"
    found = {
        name: seal_of(folder / name)
        for json_name in waiting
        for name in (json_name, json_name.replace(".json", ".safetensors"))
        if (folder / name).exists()  # a rerun that failed has no values per query
    }
    if found:
        _note(store, "all", "", SEALED, sealed=found)


def _note(
    store: Store,
    method: str,
    selection: str,
    event: str,
    *,
    reruns: tuple[int, ...] = (),
    sealed: Mapping[str, str] | None = None,
) -> None:
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
        )
    )


def test_view(permit: TestPermit, spec: RunSpec, resources: Resources) -> Dataset:
    """The test images, for the holder of a valid permit."""
    permit.verify()
    identity = spec.data
    fingerprint, test = _load(
        identity.model_dump_json(), spec.transform.model_dump_json(), resources.dataset_root
    )
    if fingerprint != identity.fingerprint:
        raise RunError(
            f"dataset {identity.name} has changed since the experiment began (fingerprint {fingerprint}, was "
            f"{identity.fingerprint}); restore it, or begin with a new --out folder"
        )
    return test


test_view.__test__ = False  # type: ignore[attr-defined]  # not a test function, whatever its name begins with


@lru_cache(maxsize=1)
def _load(data: str, transform: str, root: Path | None) -> tuple[str, Dataset]:
    identity = DataIdentity.model_validate_json(data)
    images = PluginIdentity.model_validate_json(transform)
    dataset = open_dataset(
        identity.name,
        identity.options | ({} if root is None else {"root": str(root)}),
        transform=images.name,
        transform_options=images.options,
    )
    plan = split_dataset(dataset, identity.split.name, identity.split.options)
    return dataset.fingerprint, dataset.select(plan.test)
