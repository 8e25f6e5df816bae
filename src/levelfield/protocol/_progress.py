"""What is going on, for whoever wants to show it: a board of rows, and events as they happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from levelfield.protocol._flow import Job
from levelfield.records import Trial

CONTROL = ("features", "propose", "gallery")  # stages that are no runs of a method


@dataclass
class Row:
    """One method, or one of its repeats, or the baseline.

    Attributes:
        name: As reports call it.
        total: Jobs in all, as far as they are known.
        done: Those that are finished, now or before.
        running: Those under way.
        stage: What it does now: "search", "confirm", "score" or "done"; "waiting" before that.
        best: The best validation score so far.
        trials: Finished trials of its search, and how many there will be.
        seconds: That its jobs took in this process, and how many these were.
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
        """How long one of its jobs takes; None before one has been done here."""
        return self.seconds / self.timed if self.timed else None


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        kind: "started", "finished", "known", "lost" (of jobs), "report" (how far a long job is), "trial",
            "selected", "opened", "ended" (of rows), "stopping".
        row: Whose it is.
        stage: Of which stage.
        text: The rest in words.
        done: With "report": how much of ``total`` is done.
        total: See ``done``.
        score: With "trial" and "selected": the validation score.
    """

    kind: str
    row: str
    stage: str = ""
    text: str = ""
    done: int = 0
    total: int = 0
    score: float | None = None


class Progress(Protocol):
    """Is told of each event, with the board as it stands then; the command line shows it."""

    def update(self, board: Board, event: Event) -> None:
        """Something has happened."""
        ...


@dataclass
class Board:
    """The rows by name, and what is under way besides them; ``title`` tells several experiments apart."""

    progress: Progress | None = None
    slots: Callable[[], int] = lambda: 1
    rows: dict[str, Row] = field(default_factory=dict)
    busy: dict[str, tuple[int, int]] = field(default_factory=dict)  # features: how far they are
    since: float = field(default_factory=time.monotonic)
    title: str = ""

    @property
    def done(self) -> int:
        """Jobs of all rows that are finished."""
        return sum(row.done for row in self.rows.values())

    @property
    def total(self) -> int:
        """Jobs of all rows."""
        return sum(row.total for row in self.rows.values())

    @property
    def running(self) -> int:
        """Jobs of all rows that are under way."""
        return sum(row.running for row in self.rows.values())

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.since

    @property
    def seconds_left(self) -> float | None:
        """An estimate: what is left of each row by its own pace, on all slots; None before there is one."""
        timed = [row for row in self.rows.values() if row.timed]
        if not timed:
            return None
        mean = sum(row.seconds for row in timed) / sum(row.timed for row in timed)
        left = sum((row.total - row.done) * (row.mean_seconds or mean) for row in self.rows.values())
        return left / max(1, self.slots())

    def expect(self, name: str, total: int, *, done: int = 0, budget: int = 0) -> None:
        """There will be a row of so many jobs, some of which are done, and so many trials."""
        self.rows[name] = Row(name, total=total, done=done, budget=budget)

    def skip(self, name: str, jobs: int) -> None:
        """So many jobs of a row were done before."""
        self.rows[name].done += jobs

    def tell(self, event: Event) -> None:
        """Pass an event on."""
        if self.progress is not None:
            self.progress.update(self, event)

    # What the scheduler says

    def queued(self, job: Job) -> None:
        """A job waits for its turn."""
        if job.stage not in CONTROL:
            self.rows[job.row].stage = job.stage

    def known(self, job: Job) -> None:
        """A job was done before."""
        if job.stage not in CONTROL:
            self.rows[job.row].done += 1
            self.rows[job.row].stage = job.stage
            self.tell(Event("known", job.row, job.stage))

    def started(self, job: Job) -> None:
        """A job is handed to the engine."""
        if job.stage == "features":
            self.busy[job.row] = (0, 0)
        elif job.stage not in CONTROL:
            self.rows[job.row].running += 1
        self.tell(Event("started", job.row, job.stage))

    def reported(self, job: Job, done: int, total: int) -> None:
        """A long job says how far it is."""
        if job.stage == "features":
            self.busy[job.row] = (done, total)
        self.tell(Event("report", job.row, job.stage, done=done, total=total))

    def finished(self, job: Job, seconds: float) -> None:
        """A job is finished."""
        if job.stage == "features":
            self.busy.pop(job.row, None)
        elif job.stage not in CONTROL:
            row = self.rows[job.row]
            row.running -= 1
            row.done += 1
            row.seconds += seconds
            row.timed += 1
        self.tell(Event("finished", job.row, job.stage))

    def lost(self, job: Job, why: str) -> None:
        """A job's process died each time."""
        self.tell(Event("lost", job.row, job.stage, text=why))

    def stopping(self, running: int) -> None:
        """Ctrl-C was pressed; so many jobs are still to be finished."""
        self.tell(Event("stopping", "", text=str(running)))

    # What the flows say

    def trial(self, name: str, trial: Trial, *, sign: int, before: bool = False) -> None:
        """A trial is on record; ``before`` this command was given, if so."""
        row, score = self.rows[name], trial.score
        row.trials = max(row.trials, trial.number + 1)
        if score is not None and (row.best is None or sign * score > sign * row.best):
            row.best = score
        if not before:
            self.tell(Event("trial", name, "search", done=row.trials, score=score, text=trial.reason))

    def selected(self, name: str, score: float | None, reason: str = "") -> None:
        """A selection is frozen; the jobs that a search did not need will not come."""
        self.tell(Event("selected", name, "search", score=score, text=reason))

    def opened(self, name: str) -> None:
        """The test set is opened for a selection."""
        self.tell(Event("opened", name, "score"))

    def ended(self, name: str) -> None:
        """A row has nothing more to do."""
        row = self.rows[name]
        row.stage, row.total = "done", row.done
        self.tell(Event("ended", name))
