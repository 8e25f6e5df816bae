"""Log of test-set openings in the user's cache: it notices that a second experiment opens the same data.

The log belongs to one user on one computer. An experiment is known by the first line of its ledger, so a copy
of a directory is the same experiment, and a directory that was deleted and computed again is another one.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from levelfield.core import files
from levelfield.core.errors import RunError
from levelfield.records._digest import digest
from levelfield.records._identity import DataIdentity
from levelfield.records._models import Selection
from levelfield.records._provenance import now
from levelfield.records._store import Store

LOG_DIRECTORY = "openings"  # in the cache
MANY = 5  # more names than these are counted


def opening_note(store: Store, selection: Selection) -> str:
    """Return a sentence on the other experiments that opened the same test set; empty if there are none.

    It is empty too if the ledger has the sentence already.
    """
    data = _data_of(store, selection)
    lines = store.ledger()
    own = {line.line_id for line in lines}
    others = {} if data is None else {e["ledger"]: e for e in _read(data) if e["ledger"] not in own}
    if not others:
        return ""
    assert data is not None
    split = _split_of(data)
    names = list(dict.fromkeys(_name(entry, split) for entry in others.values()))
    shown = ", ".join(names[:MANY]) + (f" and {len(names) - MANY} more" if len(names) > MANY else "")
    first = min(str(entry["time"]) for entry in others.values())[:10]
    count = f"{len(others)} other experiment{'' if len(others) == 1 else 's'}"
    opened = f"A test set of the same images ({data.name}) was opened before on this computer"
    note = f"{opened}, for {count} ({shown}), first on {first}."
    return "" if any(line.note == note for line in lines) else note


def log_opening(store: Store, selection: Selection) -> None:
    """Add the experiment to the log of its test set, once. A cache that cannot be written is left alone."""
    data, lines = _data_of(store, selection), store.ledger()
    if data is None or not lines:
        return
    root = lines[0].line_id
    with suppress(RunError, OSError):
        if any(entry["ledger"] == root for entry in _read(data)):
            return
        name = store.experiment_record().experiment.name
        entry = {"time": now(), "ledger": root, "experiment": name, "directory": str(store.root)}
        files.append_line(log_file(data), entry | {"split": _split_of(data)})


def log_file(data: DataIdentity) -> Path:
    """Return the log of a dataset: one file per content, because other folds may have the same test set.

    Example:
        >>> from levelfield.records import PluginIdentity
        >>> split = PluginIdentity(name="class_disjoint")
        >>> logs = {log_file(DataIdentity(name="x", fingerprint=f, split=split)).name for f in "ab"}
        >>> len(logs)
        2
    """
    dataset = data.name.replace("/", "_").replace(":", "_")  # names of hubs
    return files.cache_directory() / LOG_DIRECTORY / f"{dataset}-{digest(data.fingerprint)}.jsonl"


def _split_of(data: DataIdentity) -> str:
    return digest(data.split.model_dump(mode="json"))


def _name(entry: dict[str, Any], split: str) -> str:
    """Return the experiment of an entry, marked if it cut the images in another way."""
    other = "" if entry.get("split") == split else ", another split or other folds"
    return f"{entry['experiment']}{other}"


def _read(data: DataIdentity) -> list[dict[str, Any]]:
    """Return the entries of a log; a damaged log counts as empty, because it is no record."""
    wanted = {"time", "ledger", "experiment"}
    try:
        return [entry for entry in files.read_lines(log_file(data)) if wanted <= entry.keys()]
    except RunError:
        return []


def _data_of(store: Store, selection: Selection) -> DataIdentity | None:
    if selection.network is not None:
        return selection.network.data
    search = None if selection.search is None else store.search(selection.search)
    return None if search is None else search.run.data
