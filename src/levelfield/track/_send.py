"""Sending records to one tracker: once, or repeatedly while they grow."""

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

from levelfield.config import TrackSpec
from levelfield.core import files
from levelfield.core.errors import LevelfieldError, mask_password
from levelfield.core.registry import load_plugin_file
from levelfield.records import Store, digest
from levelfield.track._journal import SentJournal
from levelfield.track._reader import RecordReader
from levelfield.track._record import Tracker, TrackerRecord
from levelfield.track._registry import check_tracker, registry

POLL_SECONDS = 2.0
PAUSE_PER_POLL = 9  # minimum pause as a multiple of the poll duration: at most a tenth of a core
LONGEST_PAUSE = 60.0  # seconds between attempts to reach a tool that is down


def tracker_directory(root: Path) -> Path:
    """Return the directory of the trackers' own files, inside the experiment directory."""
    return root / "tracking"


def viewer_command(root: Path, spec: TrackSpec) -> str:
    """Return the command that shows a tracker's local files; empty if the data is sent elsewhere.

    Example:
        >>> viewer_command(Path("runs/mine"), TrackSpec(name="tensorboard"))
        'tensorboard --logdir runs/mine/tracking/tensorboard'
    """
    return (
        ""
        if _destination(spec)
        else registry[spec.name].card.viewer.format(directory=tracker_directory(root) / spec.name)
    )


def journal_file(root: Path, spec: TrackSpec) -> Path:
    """Return the journal of sent records: one file per destination.

    The file is in the tracker's own directory. Delete the file or the directory to send everything again.

    Example:
        >>> journal_file(Path("runs/mine"), TrackSpec(name="tensorboard")).as_posix()
        'runs/mine/tracking/tensorboard/told.jsonl'
    """
    destination = _destination(spec)
    name = f"told-{digest(destination)[:8]}.jsonl" if destination else "told.jsonl"
    return tracker_directory(root) / spec.name / name


def _destination(spec: TrackSpec) -> dict[str, str]:
    """Return the options and environment variables that send a tracker's data elsewhere."""
    variables = {name: os.environ.get(name, "") for name in registry[spec.name].card.environment}
    return {name: str(value) for name, value in {**variables, **spec.options}.items() if value}


def directory_id(root: Path) -> str:
    """Return the random ID of this experiment directory; it stays when the directory is moved."""
    file = tracker_directory(root) / "folder.json"
    if not file.exists():
        files.write_json(file, {"id": uuid4().hex[:16]})
    return str(files.read_json(file)["id"])


class Sender:
    """Sender of one experiment's records to one tracker, with a journal of what was sent."""

    def __init__(self, root: Path, spec: TrackSpec) -> None:
        self.name = spec.name
        self._root = root
        self._spec = spec
        self._reader = RecordReader(Store(root))
        self._journal = SentJournal(journal_file(root, spec))
        self._tracker: Tracker | None = None

    def send(self) -> int:
        """Send all new records and return their number."""
        sent = 0
        for record in self._reader.read(self._journal.is_final):
            content_digest = record.content_digest
            if not self._journal.is_sent(record, content_digest):
                self._open().log(self._with_unique_key(record))
                self._journal.add(record, content_digest)
                sent += 1
        return sent

    def count_unsent(self) -> int:
        """Return the number of records with new content that was not sent."""
        records = self._reader.read(self._journal.is_final)
        return sum(not self._journal.is_sent(record, record.content_digest) for record in records)

    def close(self) -> None:
        """Close the tracker; the next :meth:`send` opens it again."""
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.close()

    def _with_unique_key(self, record: TrackerRecord) -> TrackerRecord:
        """Return the record with a key that is unique among all experiment directories."""
        prefix = directory_id(self._root)
        parent = None if record.parent is None else f"{prefix}/{record.parent}"
        return replace(record, key=f"{prefix}/{record.key}", parent=parent)

    def _open(self) -> Tracker:
        if self._tracker is None:
            own = tracker_directory(self._root) / self.name
            experiment = Store(self._root).experiment_record().experiment.name
            tracker: Tracker = registry.create(
                self.name, experiment=experiment, directory=own, **self._spec.options
            )
            self._tracker = tracker
        return self._tracker


def send_records(root: Path, spec: TrackSpec, *, plugins: Sequence[Path] = ()) -> int:
    """Send the missing records of a finished or unfinished experiment to a tracker.

    Args:
        root: Experiment directory.
        spec: Tracker with its options.
        plugins: Plug-in files that register custom trackers.

    Returns:
        Number of records sent.
    """
    Store(root).experiment_record()
    for file in plugins:
        load_plugin_file(file)
    check_tracker(spec)
    busy = f"another process is sending the records of {root} to {spec.name}; wait until it has finished"
    with _exclusive_sender(root, spec.name, busy=busy):
        sender = Sender(root, spec)
        try:
            return sender.send()
        finally:
            sender.close()


def follow_records(
    root: Path, spec: TrackSpec, *, ended: threading.Event, report: Callable[[str], None], poll: float
) -> None:
    """Send records as they appear until ``ended`` is set; then send the rest and return.

    If a tool cannot be reached, this is reported once, and retried with growing pauses. Waits if the tracker
    process of a killed run is still sending.

    Args:
        root: Experiment directory.
        spec: Tracker with its options.
        ended: Set when the run is over.
        report: Called with messages for the user.
        poll: Seconds between two polls.
    """
    with _exclusive_sender(root, spec.name):
        sender = Sender(root, spec)
        pause, reported = poll, False
        while True:
            last = ended.is_set()
            began = time.monotonic()
            problem = _try_send(sender)
            if problem is None:
                pause = max(poll, PAUSE_PER_POLL * (time.monotonic() - began))
            elif not reported:
                reported = True
                report(f"{spec.name}: {problem}; the run continues, and missing records are sent later")
            if last:
                break
            ended.wait(pause)
            if problem is not None:
                pause = min(2 * pause, LONGEST_PAUSE)
        if problem is None:
            problem = _try_close(sender)
        if problem is not None:
            report(f"{spec.name}: {sender.count_unsent()} records were not sent; {resend_hint(root, spec)}")
        elif reported:
            report(f"{spec.name}: reachable again; all records are sent")


def _try_close(sender: Sender) -> str | None:
    """Close the sender; return an error message, or None."""
    try:
        sender.close()
    except Exception as error:
        return _one_line(error)
    return None


def resend_hint(root: Path, spec: TrackSpec) -> str:
    """Return a hint with the command that sends the missing records; the passwords of addresses are masked.

    Example:
        >>> resend_hint(Path("runs/mine"), TrackSpec.model_validate({"name": "mlflow", "uri": "http://there:5000"}))
        '`levelfield track runs/mine --to mlflow --option uri=http://there:5000` sends them'
    """
    options = [shlex.quote(f"{name}={value}") for name, value in spec.options.items()]
    command = ["levelfield track", shlex.quote(str(root)), "--to", spec.name]
    command += [f"--option {option}" for option in options]
    return mask_password(f"`{' '.join(command)}` sends them")


def _try_send(sender: Sender) -> str | None:
    """Send new records; return an error message, or None."""
    try:
        sender.send()
    except Exception as error:
        with suppress(Exception):
            sender.close()
        return _one_line(error)
    return None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    shown = text if len(text) <= 200 else text[:197] + "..."
    return shown if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {shown}"


def _exclusive_sender(root: Path, name: str, *, busy: str | None = None) -> AbstractContextManager[None]:
    return files.lock(tracker_directory(root) / f".{name}.lock", busy=busy)
