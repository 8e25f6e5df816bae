"""TensorBoard: event files, one folder per entry, written and read with TensorBoard's own code."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Any

from levelfield.files import write_text
from levelfield.track._entry import Entry
from levelfield.track._registry import register

SESSION = "_hparams_/session_start_info"  # the tag under which TensorBoard looks for hyperparameters
OWNER = "levelfield-key.txt"  # in each folder: the entry that its event files are of
Known = dict[str, tuple[int, float | str]]  # the last step and value of each tag


@register("tensorboard", package="tensorboard", look="tensorboard --logdir {folder}")
class TensorBoard:
    """Curves and scores as scalars, trials with their hyperparameters, settings and the final table as text.

    Args:
        experiment: Its name, the first folder.
        folder: Where the event files go.
        logdir: Another place for them, such as one that your TensorBoard looks at.
    """

    def __init__(self, *, experiment: str, folder: Path, logdir: str | None = None) -> None:
        self._base = Path(logdir).expanduser() / experiment if logdir else folder
        self._places: dict[str, tuple[Path, Known]] = {}
        self._writers: dict[str, Any] = {}

    def tell(self, entry: Entry) -> None:
        """See :class:`levelfield.track.Tracker`."""
        if entry.key not in self._places:
            named = self._base if entry.kind == "experiment" else self._base / entry.name
            folder = _own_folder(named, entry.key)
            self._places[entry.key] = (folder, _last_values(folder))
        folder, known = self._places[entry.key]
        events = _events(entry, known)
        if events:
            if entry.key not in self._writers:
                self._writers[entry.key] = _writer(folder)
            for event in events:
                self._writers[entry.key].add_event(event)
            self._writers[entry.key].flush()
        if entry.status != "running" and entry.key in self._writers:
            self._writers.pop(entry.key).close()

    def close(self) -> None:
        """See :class:`levelfield.track.Tracker`."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def _own_folder(named: Path, key: str) -> Path:
    """The folder of an entry: ``named``, or ``named~2`` and so on where another entry of that name was.

    After an edit of the experiment a trial or rerun of the same name is another one: curves must not mix.
    """
    for number in count(1):
        folder = named if number == 1 else named.with_name(f"{named.name}~{number}")
        owner = folder / OWNER
        if not owner.exists():
            write_text(owner, key)
        if owner.read_text(encoding="utf-8") == key:
            return folder
    raise AssertionError("count does not end")


def _writer(folder: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder))


def _last_values(folder: Path) -> Known:
    """The last step and value of every tag that the folder's event files hold."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: Known = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(file)).Load():  # ends quietly at a record that a kill cut short
            for value in event.summary.value:
                if event.step >= found.get(value.tag, (-1, 0.0))[0]:
                    found[value.tag] = (event.step, _content(value.tensor))
    return found


def _content(tensor: Any) -> float | str:
    if tensor.string_val:
        return str(tensor.string_val[0].decode("utf-8"))
    return float(tensor.float_val[0]) if tensor.float_val else 0.0


def _events(entry: Entry, known: Known) -> list[Any]:
    """What the event files do not hold yet; ``known`` is brought up to date."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.summary_v2 import text_pb

    events = []
    if entry.kind == "trial" and entry.status != "running" and SESSION not in known:
        events += _hparams(entry)
        known[SESSION] = (0, 0.0)
    values: list[tuple[str, int, float | str]] = [
        (name, point.step, value) for point in entry.points for name, value in point.values.items()
    ]
    whole: dict[str, float | str] = {**entry.scores, **_texts(entry)}
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
    return abs(old - new) > 1e-6 * max(1.0, abs(new))  # event files hold float32


def _texts(entry: Entry) -> dict[str, str]:
    """Settings, and the part of the report that TensorBoard can show: its table."""
    if entry.kind != "experiment":
        return {}
    rows = [f"| {name} | {value} |" for name, value in entry.parameters.items()]
    tables = {file.stem: file.read_text(encoding="utf-8") for file in entry.files if file.suffix == ".md"}
    return {"settings": "\n".join(["| setting | value |", "|---|---|", *rows]), **tables}


def _hparams(entry: Entry) -> list[Any]:
    """A trial for TensorBoard's table of hyperparameters."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    begin = hparams_pb({**entry.parameters, "method": entry.method}, trial_id=entry.name)
    return [Event(wall_time=time.time(), step=0, summary=begin)]
