"""A search that several machines share through a database.

Every machine keeps its own folder. It claims trials, runs them, and at the end has the records of all
trials, also those that others ran, so that each machine freezes the same selection. A machine that is
killed takes its own trials up again when it comes back; those of one that stays away are taken over.

Alone, a machine tries exactly what it would try without a database. Together, what a trial tries depends
on which trials happen to be finished.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from levelfield.errors import RunError
from levelfield.methods import Method
from levelfield.protocol._flow import Flow, Pause, Together
from levelfield.protocol._progress import Board
from levelfield.protocol._proposals import budget, propose
from levelfield.protocol._resolved import Resolved
from levelfield.protocol._storage import SharedStudy, Slot
from levelfield.protocol._trials import trial_flow
from levelfield.records import Store, Trial, environment

POLL_SECONDS = 1.0
SILENCE_SECONDS = 600.0


def shared_search(
    resolved: Resolved, method: Method, store: Store, board: Board, *, search: str, row: str
) -> Flow[list[Trial]]:
    """Work on the search ``search`` until all its trials are finished, whoever runs them."""
    settings = resolved.experiment.search
    assert settings.storage is not None
    worker = f"{environment().host}:{store.root.resolve()}"
    study = SharedStudy(
        settings.storage,
        name=f"{method.name} {search}",
        space=method.space,
        worker=worker,
        sign=resolved.sign,
    )
    limit = budget(resolved, method)
    _contribute(study, study.slots(limit), store.trials(search))
    silence = _Silence()
    while True:
        slots = study.slots(limit)
        for trial in _keep(store, search, slots):
            board.trial(row, trial, sign=resolved.sign)
        open_slots = [slot for slot in slots if slot.state != "finished"]
        if not open_slots:
            return [slot.record for slot in slots if slot.record is not None]
        mine = _claim(study, open_slots, worker, count=settings.parallel, silence=silence)
        if not mine:
            yield Pause(POLL_SECONDS)
            continue
        finished = [slot.record for slot in slots if slot.record is not None]
        wanted = []
        for slot in mine:
            point = slot.point
            if point is None:
                others = [other.point for other in study.slots(limit) if other.state == "running"]
                running = [other for other in others if other is not None]
                (point,) = propose(resolved, method, [slot.number], finished=finished, running=running)
                study.decide(slot.number, point)
            wanted.append((slot.number, point))
        left = float(len(open_slots))
        flows = [
            trial_flow(resolved, method, store, number, point, earlier=finished, row=row, urgency=left)
            for number, point in wanted
        ]
        with study.beating([slot.number for slot in mine]):
            trials = yield Together(flows)
        for trial in trials:
            study.finish(trial)


def _contribute(study: SharedStudy, slots: Sequence[Slot], trials: Sequence[Trial]) -> None:
    """Bring in what this folder has found before, where the database does not know it yet."""
    for slot, trial in zip(slots, trials, strict=False):
        if slot.state == "waiting" and study.claim(slot.number):
            study.decide(slot.number, dict(trial.hyperparameters))
            study.finish(trial)


def _claim(
    study: SharedStudy, slots: Sequence[Slot], worker: str, *, count: int, silence: _Silence
) -> list[Slot]:
    """Up to ``count`` slots to work on: our own unfinished ones, then waiting ones, then abandoned ones."""
    mine = [slot for slot in slots if slot.state == "running" and slot.worker == worker]
    for slot in slots:
        if len(mine) >= count:
            break
        if slot.state == "waiting" and study.claim(slot.number):
            mine.append(slot)
    if not mine:
        mine = [slot for slot in slots if slot.state == "running" and silence.is_dead(slot)][:count]
        for slot in mine:
            study.seize(slot.number)
    return mine


class _Silence:
    """Who has not been heard of for long. Judged by our own clock: those of two machines may differ."""

    def __init__(self) -> None:
        self._heard: dict[int, tuple[str | None, int, float]] = {}

    def is_dead(self, slot: Slot) -> bool:
        worker, beat, since = self._heard.get(slot.number, (None, -1, 0.0))
        if (worker, beat) != (slot.worker, slot.beat):
            self._heard[slot.number] = (slot.worker, slot.beat, time.monotonic())
            return False
        return time.monotonic() - since > SILENCE_SECONDS


def _keep(store: Store, search: str, slots: Sequence[Slot]) -> Iterator[Trial]:
    """Write the records of all finished trials into our own folder; those that it did not have."""
    for slot in slots:
        if slot.record is None:
            continue
        known = store.trial(search, slot.number)
        if known is None:
            store.write_trial(search, slot.record)
            yield slot.record
        elif known != slot.record:
            raise RunError(
                f"trial {slot.number} in {store.root} is another one than in the database of search.storage; "
                "choose a new --out folder to join that search"
            )
