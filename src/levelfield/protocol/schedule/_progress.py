"""Progress of an experiment: the state of each row, and events passed to a callback."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from levelfield.protocol.schedule._flow import Job
from levelfield.records import Trial

UNCOUNTED_STAGES = ("features", "propose", "gallery")  # not runs of a method


@dataclass
class ProgressRow:
    """Progress of a method, of one of its repeats, or of the baseline.

    Attributes:
        name: Name of the row, as in reports.
        total: Number of jobs, as far as known.
        done: Number of finished jobs, including those of earlier commands.
        running: Number of running jobs.
        stage: "waiting", "search", "confirm", "score" or "done".
        best: Best validation score so far.
        trials: Number of finished trials.
        budget: Number of trials that the search will have.
        seconds: Total seconds of the jobs that finished during this command.
        timed: Number of jobs counted in ``seconds``.
    """

    name: str
    total: int = 0
    done: int = 0
    running: int = 0
    stage: str = "waiting"
    best: float | None = None
    trials: int = 0
    budget: int = 0
    seconds: float = 0.0
    timed: int = 0

    @property
    def mean_seconds(self) -> float | None:
        """Mean seconds of a job; None before the first one has finished."""
        return self.seconds / self.timed if self.timed else None


@dataclass(frozen=True)
class ProgressEvent:
    """One event of a running experiment.

    Attributes:
        kind: Of a job: "started", "finished", "known" (done by an earlier command), "lost" or "report"
            (progress of a long job). Of a row: "trial", "selected", "opened" or "ended". Of the experiment:
            "stopping", "waiting" (nothing has happened for a minute).
        row: Name of the row.
        stage: Stage of the job; see :class:`levelfield.protocol.schedule._flow.Job`.
        text: Details in words.
        done: Finished steps of a "report", or finished trials of a "trial".
        total: Number of steps of a "report".
        score: Validation score of a "trial" or "selected".
    """

    kind: str
    row: str
    stage: str = ""
    text: str = ""
    done: int = 0
    total: int = 0
    score: float | None = None


class ProgressCallback(Protocol):
    """Receives progress events; the command line displays them."""

    def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
        """Handle one event; ``progress_state`` is the state right after it."""
        ...


@dataclass
class ProgressState:
    """Progress of all rows of an experiment.

    Attributes:
        progress: Called with progress events.
        slots: Returns the number of jobs that can run at once.
        rows: Rows by name.
        busy: Feature computations that are running: done and total images by name.
        since: Start time, as in ``time.monotonic``.
        title: Name of the experiment where several run in turn, as in a sweep.
    """

    progress: ProgressCallback | None = None
    slots: Callable[[], int] = lambda: 1
    rows: dict[str, ProgressRow] = field(default_factory=dict)
    busy: dict[str, tuple[int, int]] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    title: str = ""

    @property
    def done(self) -> int:
        """Number of finished jobs."""
        return sum(row.done for row in self.rows.values())

    @property
    def total(self) -> int:
        """Number of jobs."""
        return sum(row.total for row in self.rows.values())

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return sum(row.running for row in self.rows.values())

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.since

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left, at each row's own pace on all slots; None before a job is timed."""
        timed = [row for row in self.rows.values() if row.timed]
        if not timed:
            return None
        mean = sum(row.seconds for row in timed) / sum(row.timed for row in timed)
        left = sum((row.total - row.done) * (row.mean_seconds or mean) for row in self.rows.values())
        return left / max(1, self.slots())

    def add_row(self, name: str, total: int, *, done: int = 0, budget: int = 0) -> None:
        """Add a row with ``total`` jobs, ``done`` of them finished, and ``budget`` trials."""
        self.rows[name] = ProgressRow(name, total=total, done=done, budget=budget)

    def add_done(self, name: str, jobs: int) -> None:
        """Count jobs of a row that an earlier command finished."""
        self.rows[name].done += jobs

    def _emit(self, event: ProgressEvent) -> None:
        """Pass an event to the callback."""
        if self.progress is not None:
            self.progress.update(self, event)

    # Called by the scheduler

    def job_queued(self, job: Job) -> None:
        """Note that a job waits for a slot."""
        if job.stage not in UNCOUNTED_STAGES:
            self.rows[job.row].stage = job.stage

    def job_known(self, job: Job) -> None:
        """Count a job that an earlier command finished."""
        if job.stage not in UNCOUNTED_STAGES:
            self.rows[job.row].done += 1
            self.rows[job.row].stage = job.stage
            self._emit(ProgressEvent("known", job.row, job.stage))

    def job_started(self, job: Job) -> None:
        """Count a job that was submitted to the engine."""
        if job.stage == "features":
            self.busy[job.row] = (0, 0)
        elif job.stage not in UNCOUNTED_STAGES:
            self.rows[job.row].running += 1
        self._emit(ProgressEvent("started", job.row, job.stage))

    def job_reported(self, job: Job, done: int, total: int) -> None:
        """Note the progress of a long job."""
        if job.stage == "features":
            self.busy[job.row] = (done, total)
        self._emit(ProgressEvent("report", job.row, job.stage, done=done, total=total))

    def job_finished(self, job: Job, seconds: float) -> None:
        """Count a finished job and its time."""
        if job.stage == "features":
            self.busy.pop(job.row, None)
        elif job.stage not in UNCOUNTED_STAGES:
            row = self.rows[job.row]
            row.running -= 1
            row.done += 1
            row.seconds += seconds
            row.timed += 1
        self._emit(ProgressEvent("finished", job.row, job.stage))

    def job_lost(self, job: Job, why: str) -> None:
        """Report a job whose process died in every attempt."""
        self._emit(ProgressEvent("lost", job.row, job.stage, text=why))

    def stopping(self, running: int) -> None:
        """Report that Ctrl-C was pressed while ``running`` jobs run."""
        self._emit(ProgressEvent("stopping", "", text=str(running)))

    def waiting(self, text: str) -> None:
        """Report that nothing has happened for a while."""
        self._emit(ProgressEvent("waiting", "", text=text))

    # Called by the flows

    def trial_finished(self, name: str, trial: Trial, *, sign: int, earlier: bool = False) -> None:
        """Count a recorded trial; emit an event unless an ``earlier`` command recorded it."""
        row, score = self.rows[name], trial.score
        row.trials = max(row.trials, trial.number + 1)
        if score is not None and (row.best is None or sign * score > sign * row.best):
            row.best = score
        if not earlier:
            self._emit(
                ProgressEvent("trial", name, "search", done=row.trials, score=score, text=trial.reason)
            )

    def selection_frozen(self, name: str, score: float | None, reason: str = "") -> None:
        """Report a frozen selection, or the ``reason`` why the search failed."""
        self._emit(ProgressEvent("selected", name, "search", score=score, text=reason))

    def test_set_opened(self, name: str) -> None:
        """Report that the test set was opened for a selection."""
        self._emit(ProgressEvent("opened", name, "score"))

    def row_finished(self, name: str) -> None:
        """Mark a row as done; jobs that its search did not need are no longer counted."""
        row = self.rows[name]
        row.stage, row.total = "done", row.done
        self._emit(ProgressEvent("ended", name))
