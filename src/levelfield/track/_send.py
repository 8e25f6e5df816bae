"""Telling one tracker what the records say: once, or again and again while they grow."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from levelfield import files
from levelfield.config import TrackSpec
from levelfield.errors import LevelfieldError
from levelfield.records import Store, digest
from levelfield.registry import load_plugin_file
from levelfield.track._entries import Reader
from levelfield.track._entry import Entry, Tracker
from levelfield.track._journal import Journal
from levelfield.track._registry import check, registry

POLL_SECONDS = 2.0
RESTS_PER_LOOK = 9  # a pause is at least so many times as long as the look before: a tenth of a core at most
LONGEST_PAUSE = 60.0  # between attempts to reach a tool that is down


def folder_of(root: Path) -> Path:
    """Where trackers keep files of their own, beside the records of an experiment."""
    return root / "tracking"


def how_to_look(root: Path, spec: TrackSpec) -> str:
    """The command that shows what a tracker keeps beside the records; empty if it keeps it elsewhere.

    Example:
        >>> how_to_look(Path("runs/mine"), TrackSpec(name="tensorboard"))
        'tensorboard --logdir runs/mine/tracking/tensorboard'
    """
    return (
        "" if _elsewhere(spec) else registry[spec.name].card.look.format(folder=folder_of(root) / spec.name)
    )


def journal_file(root: Path, spec: TrackSpec) -> Path:
    """Where it is noted what a tracker was told: one file per place that it sends things to.

    It lies in the tracker's own folder: who deletes that folder is told everything anew.

    Example:
        >>> journal_file(Path("runs/mine"), TrackSpec(name="tensorboard")).as_posix()
        'runs/mine/tracking/tensorboard/told.jsonl'
    """
    place = _elsewhere(spec)
    name = f"told-{digest(place)[:8]}.jsonl" if place else "told.jsonl"
    return folder_of(root) / spec.name / name


def _elsewhere(spec: TrackSpec) -> dict[str, str]:
    """What sends a tracker to another place than its folder: its options, and its environment."""
    said = {name: os.environ.get(name, "") for name in registry[spec.name].card.environment}
    return {name: str(value) for name, value in {**said, **spec.options}.items() if value}


def folder_id(root: Path) -> str:
    """A name for this folder of records, drawn once; it stays when the folder is moved."""
    file = folder_of(root) / "folder.json"
    if not file.exists():
        files.write_json(file, {"id": uuid4().hex[:16]})
    return str(files.read_json(file)["id"])


class Sender:
    """Tells one tracker about one experiment, and remembers what was told."""

    def __init__(self, root: Path, spec: TrackSpec) -> None:
        self.name = spec.name
        self._root = root
        self._spec = spec
        self._reader = Reader(Store(root))
        self._journal = Journal(journal_file(root, spec))
        self._tracker: Tracker | None = None

    def send(self) -> int:
        """Tell everything that is new; how many entries that were."""
        told = 0
        for entry in self._reader.entries(self._journal.is_settled):
            mark = entry.mark
            if not self._journal.knows(entry, mark):
                self._open().tell(self._named(entry))
                self._journal.note(entry, mark)
                told += 1
        return told

    def waiting(self) -> int:
        """How many entries have something new that was not told."""
        entries = self._reader.entries(self._journal.is_settled)
        return sum(not self._journal.knows(entry, entry.mark) for entry in entries)

    def close(self) -> None:
        """Let the tool finish what it was told; the next :meth:`send` reaches for it anew."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()

    def _named(self, entry: Entry) -> Entry:
        """The entry under a key that no other folder of records has, in whichever tool they meet."""
        mine = folder_id(self._root)
        parent = None if entry.parent is None else f"{mine}/{entry.parent}"
        return replace(entry, key=f"{mine}/{entry.key}", parent=parent)

    def _open(self) -> Tracker:
        if self._tracker is None:
            own = folder_of(self._root) / self.name
            experiment = Store(self._root).index().experiment.name
            tracker: Tracker = registry.create(
                self.name, experiment=experiment, folder=own, **self._spec.options
            )
            self._tracker = tracker
        return self._tracker


def send_records(root: Path, spec: TrackSpec, *, plugins: Sequence[Path] = ()) -> int:
    """Tell a tracker what the records of a finished or unfinished experiment say, and it does not know yet.

    Args:
        root: The folder that ``levelfield run`` wrote.
        spec: Which tracker, with its options.
        plugins: Files that register trackers of your own.

    Returns:
        How many entries were new or had something new.
    """
    Store(root).index()
    for file in plugins:
        load_plugin_file(file)
    check(spec)
    busy = f"another process is telling {spec.name} about {root} already; wait for it to end"
    with _alone(root, spec.name, busy=busy):
        sender = Sender(root, spec)
        try:
            return sender.send()
        finally:
            sender.close()


def follow(
    root: Path, spec: TrackSpec, *, ended: threading.Event, say: Callable[[str], None], poll: float
) -> None:
    """Tell a tracker about records as they appear, until ``ended`` is set; then once more, and return.

    A tool that cannot be reached is tried again, after longer and longer pauses, and said so once. The
    process of a run that was killed a moment ago may still be telling; it is waited for.
    """
    with _alone(root, spec.name):
        sender = Sender(root, spec)
        pause, complained = poll, False
        while True:
            last = ended.is_set()
            began = time.monotonic()
            problem = _attempt(sender)
            if problem is None:
                pause = max(poll, RESTS_PER_LOOK * (time.monotonic() - began))
            elif not complained:
                complained = True
                say(f"{spec.name}: {problem}; the run goes on, and what is missing is sent later")
            if last:
                break
            ended.wait(pause)
            if problem is not None:
                pause = min(2 * pause, LONGEST_PAUSE)
        if problem is None:
            problem = _closing(sender)
        if problem is not None:
            say(f"{spec.name}: {sender.waiting()} entries were not sent; {remedy(root, spec)}")
        elif complained:
            say(f"{spec.name}: reached again; everything is sent")


def _closing(sender: Sender) -> str | None:
    try:
        sender.close()
    except Exception as error:
        return _line(error)
    return None


def remedy(root: Path, spec: TrackSpec) -> str:
    """What to do about entries that were not sent.

    Example:
        >>> remedy(Path("runs/mine"), TrackSpec.model_validate({"name": "mlflow", "uri": "http://there:5000"}))
        '`levelfield track runs/mine --to mlflow --option uri=http://there:5000` sends them'
    """
    options = [shlex.quote(f"{name}={value}") for name, value in spec.options.items()]
    command = ["levelfield track", shlex.quote(str(root)), "--to", spec.name]
    return f"`{' '.join([*command, *(f'--option {option}' for option in options)])}` sends them"


def _attempt(sender: Sender) -> str | None:
    """Send what is new; what went wrong, in a line, or None."""
    try:
        sender.send()
    except Exception as error:
        with suppress(Exception):
            sender.close()
        return _line(error)
    return None


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    shown = text if len(text) <= 200 else text[:197] + "..."
    return shown if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {shown}"


def _alone(root: Path, name: str, *, busy: str | None = None) -> AbstractContextManager[None]:
    return files.lock(folder_of(root) / f".{name}.lock", busy=busy)
