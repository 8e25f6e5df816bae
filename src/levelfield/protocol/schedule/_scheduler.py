"""The scheduler: runs all flows concurrently and keeps every slot of the engine busy.

The results sent to a flow depend on the records only, never on the order in which jobs finish. So the results
of an experiment do not depend on the engine, the number of workers or interruptions.
"""

from __future__ import annotations

import heapq
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from levelfield.core.processes import WATCHDOG_SECONDS, Watchdog
from levelfield.engine import Engine, LostTaskError, Task, TaskResult
from levelfield.protocol.schedule._flow import Flow, Job, Sleep, WaitForFlows, WaitForJobs, WaitUntil
from levelfield.protocol.schedule._progress import ProgressState


@dataclass
class _Waiting:
    """A flow that waits for results, which may arrive in any order."""

    flow: Flow[Any]
    parent: tuple[_Waiting, int] | None
    results: list[Any] = field(default_factory=list)
    missing: int = 0


class Scheduler:
    """Scheduler that runs flows on an engine until all have returned.

    Args:
        engine: Runs the jobs.
        progress_state: Counts jobs and passes progress events on.
        clock: Returns the time in seconds; simulations pass their own.
        patience: Seconds without an event after which the progress says what the scheduler waits for.
    """

    def __init__(
        self,
        engine: Engine,
        progress_state: ProgressState,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = WATCHDOG_SECONDS,
    ) -> None:
        self._watchdog = Watchdog(self._say_what_is_awaited, patience=patience)
        self._engine, self._progress_state, self._clock = engine, progress_state, clock
        self._ready: list[tuple[float, int, Job]] = []  # heap: highest priority first, then first in
        self._running: dict[int, Job] = {}
        self._waiters: dict[str, list[tuple[_Waiting, int]]] = {}  # flows that wait for a key
        self._results: dict[str, Any] = {}
        self._runnable: list[tuple[_Waiting, Any]] = []
        self._conditions: list[tuple[_Waiting, Callable[[], bool]]] = []
        self._sleeping: list[tuple[float, int, _Waiting]] = []
        self._count = 0
        self.stopping = False

    def run(self, flows: Sequence[Flow[Any]]) -> list[Any]:
        """Run the flows and return their results, in order.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; running jobs were finished first.
        """
        root = _Waiting(flow=_empty_flow(), parent=None, results=[None] * len(flows), missing=len(flows))
        self._runnable = [(_Waiting(flow, (root, index)), None) for index, flow in enumerate(flows)][::-1]
        with _first_interrupt_stops(self._stop), self._watchdog.running():
            while root.missing:
                self._advance()
                if not root.missing:
                    break
                if self.stopping and not self._running:
                    raise KeyboardInterrupt
                self._wait()
        return root.results

    def _advance(self) -> None:
        """Resume flows until all wait; fill free slots before each step, because a step may take long."""
        while True:
            self._submit_ready()
            if not self._runnable:
                self._resume_waiting()
            if not self._runnable or self.stopping:
                return
            self._step(*self._runnable.pop())

    def _say_what_is_awaited(self, seconds: float) -> None:
        """Report the running jobs; the watchdog's thread calls it."""
        jobs = Counter(f"{job.row} ({job.stage})" for job in list(self._running.values()))
        names = [name if count == 1 else f"{count} x {name}" for name, count in jobs.items()]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        what = ", ".join(names[:5]) + more if names else "another process, or the disk"
        self._progress_state.waiting(f"nothing has happened for {round(seconds)} s; waiting for {what}")

    def _step(self, waiting: _Waiting, value: Any) -> None:
        self._watchdog.reset()
        try:
            request = waiting.flow.send(value)
        except StopIteration as end:
            self._deliver(waiting.parent, end.value)
            return
        match request:
            case WaitForJobs(jobs=jobs):
                waiting.results, waiting.missing = [None] * len(jobs), len(jobs)
                for index, job in enumerate(jobs):
                    self._request_job(job, (waiting, index))
                if not jobs:
                    self._runnable.append((waiting, []))
            case WaitForFlows(flows=flows):
                waiting.results, waiting.missing = [None] * len(flows), len(flows)
                children = [(_Waiting(flow, (waiting, index)), None) for index, flow in enumerate(flows)]
                self._runnable += children[::-1]
                if not flows:
                    self._runnable.append((waiting, []))
            case WaitUntil(condition=condition):
                self._conditions.append((waiting, condition))
            case Sleep(seconds=seconds):
                self._count += 1
                heapq.heappush(self._sleeping, (self._clock() + seconds, self._count, waiting))

    def _request_job(self, job: Job, target: tuple[_Waiting, int]) -> None:
        """Queue a job unless its result is known or requested already."""
        if job.key not in self._results and job.key not in self._waiters:
            known = job.load_result()
            if known is not None:
                self._results[job.key] = known
                self._progress_state.job_known(job)
            else:
                self._count += 1
                heapq.heappush(self._ready, (-job.priority, self._count, job))
                self._waiters[job.key] = []
                self._progress_state.job_queued(job)
        if job.key in self._results:
            self._deliver(target, self._results[job.key])
        else:
            self._waiters[job.key].append(target)

    def _deliver(self, target: tuple[_Waiting, int] | None, value: Any) -> None:
        assert target is not None
        waiting, index = target
        waiting.results[index] = value
        waiting.missing -= 1
        if waiting.missing == 0 and waiting.parent is not None:
            self._runnable.append((waiting, waiting.results))

    def _submit_ready(self) -> None:
        while self._ready and not self.stopping and len(self._running) < max(1, self._engine.slots):
            _, _, job = heapq.heappop(self._ready)
            self._count += 1
            self._running[self._count] = job
            self._progress_state.job_started(job)
            self._engine.submit(Task(self._count, job.function, job.argument, job.reads, job.writes))

    def _resume_waiting(self) -> None:
        """Resume flows whose condition is true or whose sleep is over."""
        still = []
        for waiting, condition in self._conditions:
            if condition():
                self._runnable.append((waiting, None))
            else:
                still.append((waiting, condition))
        self._conditions = still
        while self._sleeping and self._sleeping[0][0] <= self._clock():
            self._runnable.append((heapq.heappop(self._sleeping)[2], None))

    def _wait(self) -> None:
        until = self._sleeping[0][0] - self._clock() if self._sleeping else None
        if not self._running:
            assert until is not None, "flows wait for each other"
            time.sleep(max(0.0, until))
            return
        for event in self._engine.wait(None if until is None else max(0.0, until)):
            self._watchdog.reset()
            if isinstance(event, TaskResult):
                self._finish(self._running.pop(event.number), event)
            else:
                self._progress_state.job_reported(self._running[event.number], event.done, event.total)

    def _finish(self, job: Job, event: TaskResult) -> None:
        result = event.result
        if isinstance(event.error, LostTaskError) and job.on_lost is not None:
            result = job.on_lost(str(event.error))
            self._progress_state.job_lost(job, str(event.error))
        elif event.error is not None:
            raise event.error
        self._progress_state.job_finished(job, event.seconds)
        self._results[job.key] = result
        for target in self._waiters.pop(job.key):
            self._deliver(target, result)

    def _stop(self) -> None:
        """Submit no more jobs. A thread reports it, because a signal may interrupt the printing of a line."""
        self.stopping = True
        threading.Thread(target=self._progress_state.stopping, args=(len(self._running),)).start()


def _empty_flow() -> Flow[None]:
    yield from ()


@contextmanager
def _first_interrupt_stops(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on the first Ctrl-C inside the block; the second one interrupts as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
