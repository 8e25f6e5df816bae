"""A search that several machines share through a database.

Every machine has its own experiment directory. It claims trials, runs them, and finally copies the records of
all trials into its directory, so that each machine freezes the same selection. A machine that was killed
continues its own trials after a restart; other machines take over the trials of one that stays away.

A single machine tries the same hyperparameters as without a database. With several, the hyperparameters of a
trial depend on which trials are finished at that moment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from levelfield.core.errors import RunError
from levelfield.methods import Method
from levelfield.protocol.schedule._flow import Flow, Sleep, WaitForFlows
from levelfield.protocol.schedule._progress import ProgressState
from levelfield.protocol.search._proposals import propose, trial_budget
from levelfield.protocol.search._storage import SharedStudy, SharedTrial
from levelfield.protocol.search._trials import drop_weights, trial_flow
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import Store, Trial, environment

POLL_SECONDS = 1.0
HEARTBEAT_TIMEOUT_SECONDS = 600.0


def shared_search(
    resolved: ResolvedExperiment,
    method: Method,
    store: Store,
    progress_state: ProgressState,
    *,
    search: str,
    row: str,
) -> Flow[list[Trial]]:
    """Run trials of the search ``search`` until all of them are finished, on this machine or on others."""
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
    limit = trial_budget(resolved, method)
    _add_recorded_trials(study, study.trials(limit), store.trials(search))
    drop_weights(resolved, store, store.trials(search))  # a kill may have left some
    monitor = _HeartbeatMonitor()
    while True:
        shared = study.trials(limit)
        for trial in _write_missing_trials(store, search, shared):
            drop_weights(resolved, store, [trial])
            progress_state.trial_finished(row, trial, sign=resolved.sign)
        unfinished = [trial for trial in shared if trial.state != "finished"]
        if not unfinished:
            return [trial.record for trial in shared if trial.record is not None]
        mine = _claim_trials(study, unfinished, worker, count=settings.parallel, monitor=monitor)
        if not mine:
            yield Sleep(POLL_SECONDS)
            continue
        finished = [trial.record for trial in shared if trial.record is not None]
        wanted = []
        for claimed in mine:
            point = claimed.point
            if point is None:
                others = [other.point for other in study.trials(limit) if other.state == "running"]
                running = [other for other in others if other is not None]
                (point,) = propose(resolved, method, [claimed.number], finished=finished, running=running)
                study.set_hyperparameters(claimed.number, point)
            wanted.append((claimed.number, point))
        left = float(len(unfinished))
        flows = [
            trial_flow(resolved, method, store, number, point, earlier=finished, row=row, priority=left)
            for number, point in wanted
        ]
        with study.heartbeat([claimed.number for claimed in mine]):
            trials = yield WaitForFlows(flows)
        for trial in trials:
            study.finish(trial)


def _add_recorded_trials(study: SharedStudy, shared: Sequence[SharedTrial], trials: Sequence[Trial]) -> None:
    """Add the trials recorded in this directory to the database, where they are missing."""
    for waiting, trial in zip(shared, trials, strict=False):
        if waiting.state == "waiting" and study.claim(waiting.number):
            study.set_hyperparameters(waiting.number, dict(trial.hyperparameters))
            study.finish(trial)


def _claim_trials(
    study: SharedStudy, trials: Sequence[SharedTrial], worker: str, *, count: int, monitor: _HeartbeatMonitor
) -> list[SharedTrial]:
    """Claim up to ``count`` trials: own unfinished ones first, then waiting or abandoned ones."""
    mine = [trial for trial in trials if trial.state == "running" and trial.worker == worker]
    for trial in trials:
        if len(mine) >= count:
            break
        if trial.state == "waiting" and study.claim(trial.number):
            mine.append(trial)
    if not mine:
        mine = [trial for trial in trials if trial.state == "running" and monitor.is_abandoned(trial)][:count]
        for trial in mine:
            study.take_over(trial.number)
    return mine


class _HeartbeatMonitor:
    """Detects abandoned trials by their heartbeat; uses the local clock, as clocks of machines differ."""

    def __init__(self) -> None:
        self._last_seen: dict[int, tuple[str | None, int, float]] = {}

    def is_abandoned(self, trial: SharedTrial) -> bool:
        worker, beat, since = self._last_seen.get(trial.number, (None, -1, 0.0))
        if (worker, beat) != (trial.worker, trial.beat):
            self._last_seen[trial.number] = (trial.worker, trial.beat, time.monotonic())
            return False
        return time.monotonic() - since > HEARTBEAT_TIMEOUT_SECONDS


def _write_missing_trials(store: Store, search: str, trials: Sequence[SharedTrial]) -> Iterator[Trial]:
    """Write finished trials that this directory does not have, and yield their records."""
    for trial in trials:
        if trial.record is None:
            continue
        known = store.trial(search, trial.number)
        if known is None:
            store.write_trial(search, trial.record)
            yield trial.record
        elif known != trial.record:
            raise RunError(
                f"trial {trial.number} in {store.root} differs from that in the database of search.storage; "
                "choose a new --out directory to join that search"
            )
