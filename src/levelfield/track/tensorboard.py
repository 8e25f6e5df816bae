"""TensorBoard tracker: event files, one directory per record, written and read with TensorBoard's code."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Any

from levelfield.core.files import write_text
from levelfield.track._record import TrackerRecord
from levelfield.track._registry import register

SESSION = "_hparams_/session_start_info"  # TensorBoard's tag for hyperparameters
OWNER = "levelfield-key.txt"  # in each directory: the key of its record
Known = dict[str, tuple[int, float | str]]  # last step and value of each tag


@register("tensorboard", package="tensorboard", viewer="tensorboard --logdir {directory}")
class TensorBoard:
    """Curves and scores as scalars, trials with hyperparameters, settings and the final table as text.

    Args:
        experiment: Name of the experiment; the first subdirectory of ``logdir``.
        directory: Directory of the event files.
        logdir: Other directory of the event files, such as one that your TensorBoard shows.
    """

    def __init__(self, *, experiment: str, directory: Path, logdir: str | None = None) -> None:
        self._base = Path(logdir).expanduser() / experiment if logdir else directory
        self._directories: dict[str, tuple[Path, Known]] = {}
        self._writers: dict[str, Any] = {}

    def log(self, record: TrackerRecord) -> None:
        """See :class:`levelfield.track.Tracker`."""
        if record.key not in self._directories:
            named = self._base if record.kind == "experiment" else self._base / record.name
            directory = _record_directory(named, record.key)
            self._directories[record.key] = (directory, _last_values(directory))
        directory, known = self._directories[record.key]
        events = _events(record, known)
        if events:
            if record.key not in self._writers:
                self._writers[record.key] = _writer(directory)
            for event in events:
                self._writers[record.key].add_event(event)
            self._writers[record.key].flush()
        if record.status != "running" and record.key in self._writers:
            self._writers.pop(record.key).close()

    def close(self) -> None:
        """See :class:`levelfield.track.Tracker`."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def _record_directory(named: Path, key: str) -> Path:
    """Return the directory of a record: ``named``, or ``named~2`` and so on if another record uses the name.

    After an edit of the experiment, a trial or rerun of the same name can be another one; their curves must
    not be mixed.
    """
    for number in count(1):
        directory = named if number == 1 else named.with_name(f"{named.name}~{number}")
        owner = directory / OWNER
        if not owner.exists():
            write_text(owner, key)
        if owner.read_text(encoding="utf-8") == key:
            return directory
    raise AssertionError("count does not end")


def _writer(directory: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(directory))


def _last_values(directory: Path) -> Known:
    """Return the last step and value of every tag in the event files of a directory."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: Known = {}
    for file in sorted(directory.glob("events.out.tfevents.*")):
        for event in EventFileLoader(
            str(file)
        ).Load():  # stops without error at an event that was cut short by a kill
            for value in event.summary.value:
                if event.step >= found.get(value.tag, (-1, 0.0))[0]:
                    found[value.tag] = (event.step, _content(value.tensor))
    return found


def _content(tensor: Any) -> float | str:
    if tensor.string_val:
        return str(tensor.string_val[0].decode("utf-8"))
    return float(tensor.float_val[0]) if tensor.float_val else 0.0


def _events(record: TrackerRecord, known: Known) -> list[Any]:
    """Return events that are not in the event files yet, and update ``known``."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.summary_v2 import text_pb

    events = []
    if record.kind == "trial" and record.status != "running" and SESSION not in known:
        events += _hparams(record)
        known[SESSION] = (0, 0.0)
    values: list[tuple[str, int, float | str]] = [
        (name, point.step, value) for point in record.points for name, value in point.values.items()
    ]
    whole: dict[str, float | str] = {**record.scores, **_texts(record)}
    for name, shown in whole.items():
        last = known.get(name)
        if last is None or _differ(last[1], shown):
            values.append((name, 0 if last is None else last[0] + 1, shown))
    for name, step, value in values:
        if step > known.get(name, (-1, 0.0))[0]:
            if isinstance(value, str):
                summary = text_pb(name, value)
            else:
                summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
            events.append(Event(wall_time=time.time(), step=step, summary=summary))
            known[name] = (step, value)
    return events


def _differ(old: float | str, new: float | str) -> bool:
    if isinstance(old, str) or isinstance(new, str):
        return old != new
    return abs(old - new) > 1e-6 * max(1.0, abs(new))  # event files store float32


def _texts(record: TrackerRecord) -> dict[str, str]:
    """Return verdict, settings and table as texts; TensorBoard cannot show the HTML report."""
    if record.kind != "experiment":
        return {}
    rows = [f"| {name} | {value} |" for name, value in record.parameters.items()]
    tables = {file.stem: file.read_text(encoding="utf-8") for file in record.files if file.suffix == ".md"}
    verdict = {"verdict": record.verdict} if record.verdict else {}
    return {**verdict, "settings": "\n".join(["| setting | value |", "|---|---|", *rows]), **tables}


def _hparams(record: TrackerRecord) -> list[Any]:
    """Return the event that adds a trial to TensorBoard's table of hyperparameters."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    begin = hparams_pb({**record.parameters, "method": record.method}, trial_id=record.name)
    return [Event(wall_time=time.time(), step=0, summary=begin)]
