"""Seals: digests in the ledger, so that an edited score, trial, selection or revision is found."""

from __future__ import annotations

from collections.abc import Iterable

from levelfield.config import with_recorded_keys
from levelfield.core import files
from levelfield.records._digest import digest
from levelfield.records._models import EVENT_GALLERY, LedgerLine
from levelfield.records._store import Store


def collect_seals(lines: Iterable[LedgerLine]) -> tuple[dict[str, str], list[str]]:
    """Return the seals by file in ``confirmations``, and the files of scores that have no seal yet.

    Example:
        >>> common = {"time": "t", "host": "h", "commit": None, "method": "m"}
        >>> opened = LedgerLine(selection="s", event="opened", reruns=(0, 1), **common)
        >>> sealed = LedgerLine(selection="", event="sealed", sealed={"s/rerun-00.json": "f"}, **common)
        >>> collect_seals([opened, sealed])
        ({'s/rerun-00.json': 'f'}, ['s/rerun-01.json'])
    """
    sealed: dict[str, str] = {}
    waiting: dict[str, None] = {}
    for line in lines:
        if line.event != EVENT_GALLERY:
            for name in (f"{line.selection}/rerun-{rerun:02d}.json" for rerun in line.reruns):
                waiting[name] = None
                for file in (name, name.replace(".json", ".safetensors")):
                    sealed.pop(file, None)
        for name, value in line.sealed.items():
            sealed[name] = value
            waiting.pop(name, None)
    return sealed, list(waiting)


def seal_records(store: Store) -> dict[str, str]:
    """Return the seals of everything before the test: revisions, trials and selections, by name.

    The name states how many revisions or trials the seal covers (``searches/ID/12``), so that it stays valid
    when an experiment grows.
    """
    index = store.experiment_record()
    names = [f"revisions/{len(_revisions(store))}"]
    names += [f"searches/{s}/{len(store.trials(s))}" for found in index.searches.values() for s in found]
    names += [f"selections/{name}" for found in index.selections.values() for name in found]
    return {name: value for name in names if (value := compute_record_seal(store, name)) is not None}


def compute_record_seal(store: Store, name: str) -> str | None:
    """Return the seal of records by their name; None if they are missing, or the name is not one of a seal.

    Fields that have their default value are not part of the seal of a trial, so that a later version may add
    fields.
    """
    kind, _, rest = name.partition("/")
    if kind == "revisions" and rest.isdecimal():
        found = _revisions(store)[: int(rest)]
        return digest(found) if len(found) == int(rest) else None
    if kind == "selections":
        selection = store.selections().get(rest)
        return None if selection is None else selection.selection_id
    search, _, count = rest.rpartition("/")
    if kind == "searches" and count.isdecimal():
        trials = store.trials(search)[: int(count)]
        values = [t.model_dump(mode="json", exclude_defaults=True) for t in trials]
        return digest(with_recorded_keys({"trials": values})) if len(trials) == int(count) else None
    return None


def seals_records(name: str) -> bool:
    """Return True if ``name`` is one of :func:`seal_records`, not a file of scores."""
    return name.split("/", maxsplit=1)[0] in ("revisions", "searches", "selections")


def _revisions(store: Store) -> list[object]:
    return list(files.read_lines(store.root / "revisions.jsonl"))  # as written: defaults may change
