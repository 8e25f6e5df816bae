"""TensorBoard: event files, one folder per entry, written and read with TensorBoard's own code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from levelfield.track._entry import Entry
from levelfield.track._registry import register

SESSION = "_hparams_/session_start_info"  # the tag under which TensorBoard looks for hyperparameters


@register("tensorboard", package="tensorboard", look="tensorboard --logdir {folder}")
class TensorBoard:
    """Curves and scores as scalars, trials with their hyperparameters: `tensorboard --logdir FOLDER`.

    Args:
        experiment: Its name, the first folder.
        folder: Where the event files go.
        logdir: Another place for them, such as one that your TensorBoard looks at.
    """

    def __init__(self, *, experiment: str, folder: Path, logdir: str | None = None) -> None:
        self._base = Path(logdir).expanduser() / experiment if logdir else folder
        self._experiment = experiment
        self._known: dict[str, dict[str, tuple[int, float]]] = {}
        self._writers: dict[str, Any] = {}

    def tell(self, entry: Entry) -> None:
        """See :class:`levelfield.track.Tracker`."""
        folder = self._base if entry.kind == "experiment" else self._base / entry.name
        known = self._known.setdefault(entry.key, _last_values(folder))
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


def _writer(folder: Path) -> Any:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    return EventFileWriter(str(folder))


def _last_values(folder: Path) -> dict[str, tuple[int, float]]:
    """The last step and value of every tag that the folder's event files hold."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: dict[str, tuple[int, float]] = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(file)).Load():  # ends quietly at a record that a kill cut short
            for value in event.summary.value:
                number = value.tensor.float_val[0] if value.tensor.float_val else 0.0
                if event.step >= found.get(value.tag, (-1, 0.0))[0]:
                    found[value.tag] = (event.step, number)
    return found


def _events(entry: Entry, known: dict[str, tuple[int, float]]) -> list[Any]:
    """What the event files do not hold yet; ``known`` is brought up to date."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    events = []
    if entry.kind == "trial" and entry.status != "running" and SESSION not in known:
        events += _hparams(entry)
        known[SESSION] = (0, 0.0)
    scalars = [(name, point.step, value) for point in entry.points for name, value in point.values.items()]
    for name, value in entry.scores.items():
        last = known.get(name)
        if last is None or abs(last[1] - value) > 1e-6 * max(1.0, abs(value)):  # they hold float32
            scalars.append((name, 0 if last is None else last[0] + 1, value))
    for name, step, value in scalars:
        if step > known.get(name, (-1, 0.0))[0]:
            summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
            events.append(Event(wall_time=time.time(), step=step, summary=summary))
            known[name] = (step, value)
    return events


def _hparams(entry: Entry) -> list[Any]:
    """A trial for TensorBoard's table of hyperparameters."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    begin = hparams_pb({**entry.parameters, "method": entry.method}, trial_id=entry.name)
    return [Event(wall_time=time.time(), step=0, summary=begin)]
