"""The scheduler: keeps all flows going at once, and as many jobs under way as the engine has slots.

What a flow is sent depends on the records alone, never on the order in which jobs end; so the outcome does
not depend on the engine, the number of workers or interruptions.
"""

from __future__ import annotations

import heapq
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from levelfield.engine import Finished, LostTaskError, Runner, Task
from levelfield.protocol._flow import Flow, Job, Jobs, Pause, Together, Until
from levelfield.protocol._progress import Board


@dataclass
class _Waiting:
    """A flow that waits: for so many results, which arrive at their places, in any order."""

    flow: Flow[Any]
    parent: tuple[_Waiting, int] | None
    results: list[Any] = field(default_factory=list)
    missing: int = 0


class Schedule:
    """Runs flows on an engine until all have returned.

    Args:
        engine: Carries out the jobs.
        board: Is told what happens.
        clock: The time in seconds; a simulation has its own.
    """

    def __init__(self, engine: Runner, board: Board, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._board, self._clock = engine, board, clock
        self._ready: list[tuple[float, int, Job]] = []  # a heap: most urgent first, then first come
        self._flying: dict[int, Job] = {}
        self._wanted: dict[str, list[tuple[_Waiting, int]]] = {}  # who waits for a key
        self._results: dict[str, Any] = {}
        self._runnable: list[tuple[_Waiting, Any]] = []
        self._conditions: list[tuple[_Waiting, Callable[[], bool]]] = []
        self._sleeping: list[tuple[float, int, _Waiting]] = []
        self._count = 0
        self.stopping = False

    def run(self, flows: Sequence[Flow[Any]]) -> list[Any]:
        """What the flows return, in their order.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed, and what was under way is finished.
        """
        root = _Waiting(flow=_nothing(), parent=None, results=[None] * len(flows), missing=len(flows))
        self._runnable = [(_Waiting(flow, (root, place)), None) for place, flow in enumerate(flows)][::-1]
        with _two_interrupts(self._stop):
            while root.missing:
                self._advance()
                if not root.missing:
                    break
                if self.stopping and not self._flying:
                    raise KeyboardInterrupt
                self._wait()
        return root.results

    def _advance(self) -> None:
        """Let flows go on as far as they can; free slots are filled before each step, which may take long."""
        while True:
            self._hand_out()
            if not self._runnable:
                self._wake()
            if not self._runnable or self.stopping:
                return
            self._step(*self._runnable.pop())

    def _step(self, waiting: _Waiting, value: Any) -> None:
        try:
            wish = waiting.flow.send(value)
        except StopIteration as end:
            self._deliver(waiting.parent, end.value)
            return
        match wish:
            case Jobs(jobs=jobs):
                waiting.results, waiting.missing = [None] * len(jobs), len(jobs)
                for place, job in enumerate(jobs):
                    self._want(job, (waiting, place))
                if not jobs:
                    self._runnable.append((waiting, []))
            case Together(flows=flows):
                waiting.results, waiting.missing = [None] * len(flows), len(flows)
                children = [(_Waiting(flow, (waiting, place)), None) for place, flow in enumerate(flows)]
                self._runnable += children[::-1]
                if not flows:
                    self._runnable.append((waiting, []))
            case Until(condition=condition):
                self._conditions.append((waiting, condition))
            case Pause(seconds=seconds):
                self._count += 1
                heapq.heappush(self._sleeping, (self._clock() + seconds, self._count, waiting))

    def _want(self, job: Job, whose: tuple[_Waiting, int]) -> None:
        """See that a job is done, once, however many flows want it."""
        if job.key not in self._results and job.key not in self._wanted:
            known = job.known()
            if known is not None:
                self._results[job.key] = known
                self._board.known(job)
            else:
                self._count += 1
                heapq.heappush(self._ready, (-job.urgency, self._count, job))
                self._wanted[job.key] = []
                self._board.queued(job)
        if job.key in self._results:
            self._deliver(whose, self._results[job.key])
        else:
            self._wanted[job.key].append(whose)

    def _deliver(self, whose: tuple[_Waiting, int] | None, value: Any) -> None:
        assert whose is not None
        waiting, place = whose
        waiting.results[place] = value
        waiting.missing -= 1
        if waiting.missing == 0 and waiting.parent is not None:
            self._runnable.append((waiting, waiting.results))

    def _hand_out(self) -> None:
        while self._ready and not self.stopping and len(self._flying) < max(1, self._engine.slots):
            _, _, job = heapq.heappop(self._ready)
            self._count += 1
            self._flying[self._count] = job
            self._board.started(job)
            self._engine.submit(Task(self._count, job.function, job.argument, job.reads, job.writes))

    def _wake(self) -> None:
        """Flows whose condition has come true, or whose pause is over."""
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
        if not self._flying:
            assert until is not None, "flows wait for each other"
            time.sleep(max(0.0, until))
            return
        for event in self._engine.wait(None if until is None else max(0.0, until)):
            if isinstance(event, Finished):
                self._finish(self._flying.pop(event.number), event)
            else:
                self._board.reported(self._flying[event.number], event.done, event.total)

    def _finish(self, job: Job, event: Finished) -> None:
        result = event.result
        if isinstance(event.error, LostTaskError) and job.lost is not None:
            result = job.lost(str(event.error))
            self._board.lost(job, str(event.error))
        elif event.error is not None:
            raise event.error
        self._board.finished(job, event.seconds)
        self._results[job.key] = result
        for whose in self._wanted.pop(job.key):
            self._deliver(whose, result)

    def _stop(self) -> None:
        """Hand out nothing more. Said by a thread: a signal may interrupt the writing of a line."""
        self.stopping = True
        threading.Thread(target=self._board.stopping, args=(len(self._flying),)).start()


def _nothing() -> Flow[None]:
    yield from ()


@contextmanager
def _two_interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """While this lasts, the first Ctrl-C calls ``stop``, and the second one interrupts as usual."""
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
