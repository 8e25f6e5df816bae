"""Engine that executes tasks in processes of this machine.

A worker that dies is replaced, and its task is tried again. The third attempt runs alone on the machine, so
that a lack of memory is then the task's own fault. If it dies again, the task is lost with the reason, and
the other tasks go on.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from levelfield.core.errors import RunError
from levelfield.core.processes import WATCHDOG_SECONDS
from levelfield.engine._engine import Engine, ProgressReport, Task, TaskResult, register
from levelfield.engine._execute import pickle_task, unpickle_result
from levelfield.engine._inline import InlineEngine
from levelfield.engine._machine import assign_gpus, local_worker_count
from levelfield.engine._worker import PROGRESS, READY, SCRIPT_WITHOUT_GUARD, Worker
from levelfield.engine._worker_deaths import MAX_ATTEMPTS, LostTask, LostTasks


@register("local")
def local(
    *,
    workers: int | Literal["auto"] = 1,
    threads: int = 1,
    device: str = "cpu",
    runs_per_gpu: Annotated[int, Field(ge=1, le=64)] = 1,
) -> AbstractContextManager[Engine]:
    """Execute runs in local processes; ``workers: 0`` uses this process, ``auto`` one process per core.

    On ``device: cuda`` each run has its own GPU, or ``runs_per_gpu`` runs share one.
    """
    _exit_if_imported_by_worker()  # also without workers, because runs have loader processes
    count = local_worker_count(workers, threads=threads, device=device, runs_per_gpu=runs_per_gpu)
    if count == 0:
        return nullcontext(InlineEngine())
    return LocalEngine(workers=count, gpus=assign_gpus(count, device=device)).open()


@dataclass
class _TaskAttempts:
    """Task, the bytes of its call, and the deaths of its workers so far."""

    task: Task
    call: bytes
    deaths: list[str] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        """True if the next attempt is the last one, alone on the machine."""
        return len(self.deaths) == MAX_ATTEMPTS - 1


class LocalEngine:
    """Engine with a fixed number of worker processes; see the module.

    Args:
        workers: Number of worker processes.
        gpus: The GPU that each worker sees; None for all of them.

    Example:
        >>> from levelfield.engine import run_tasks
        >>> with LocalEngine(workers=1).open() as engine:
        ...     run_tasks(engine, abs, [-1, 2])
        [1, 2]
    """

    def __init__(self, *, workers: int, gpus: Sequence[str | None] = ()) -> None:
        self._gpus = list(gpus) or [None] * workers
        self._workers: list[Worker | None] = [None] * workers
        self._running: dict[int, _TaskAttempts] = {}  # by index of the worker
        self._queue: deque[_TaskAttempts] = deque()
        self._last_attempts: deque[_TaskAttempts] = deque()  # each runs alone on the machine
        self._lost_tasks = LostTasks()
        self._failed_starts = 0  # in a row
        self._stderr_directory = Path()
        self._started = 0

    @property
    def slots(self) -> int:
        """Number of workers, and one more for each lost task, so that other tasks can be tried."""
        return len(self._workers) + len(self._lost_tasks)

    @contextmanager
    def open(self) -> Iterator[LocalEngine]:
        """Start workers on demand and end them in all cases."""
        _exit_if_imported_by_worker()
        with tempfile.TemporaryDirectory(prefix="levelfield-workers-") as directory:
            self._stderr_directory = Path(directory)
            try:
                yield self
            finally:
                for index, worker in enumerate(self._workers):
                    if worker is not None:
                        worker.forward_stderr()
                        worker.stop(now=index in self._running or not worker.is_ready)
                        self._workers[index] = None

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Engine`."""
        self._queue.append(_TaskAttempts(task, pickle_task(task.number, task.function, task.job)))
        self._assign_tasks()

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        """See :class:`levelfield.engine.Engine`."""
        events: list[TaskResult | ProgressReport] = []
        while not events:
            self._assign_tasks()
            idle = not (self._running or self._queue or self._last_attempts)
            events += self._lost_tasks.resolve_lost_tasks(idle=idle)
            alive = [worker for worker in self._workers if worker is not None]
            if events or not alive:
                break
            watched = [item for w in alive for item in (w.connection, w.process.sentinel)]
            patience = WATCHDOG_SECONDS if timeout is None else min(timeout, WATCHDOG_SECONDS)
            if not multiprocessing.connection.wait(watched, patience):
                for waiting in alive:
                    waiting.forward_stderr()  # a waiting worker may have said what it waits for
                break
            before = len(self._lost_tasks)
            for index, worker in enumerate(self._workers):
                if worker is not None:
                    events += self._read_events(index, worker)
            if len(self._lost_tasks) > before:
                break  # there is one more slot; the caller may have another task to try
        self._assign_tasks()
        return events

    def _read_events(self, index: int, worker: Worker) -> list[TaskResult | ProgressReport]:
        """Return the new events of one worker."""
        died = worker.process.exitcode is not None  # read first: messages sent before a death still count
        events: list[TaskResult | ProgressReport] = []
        for message in worker.receive_messages():
            if message == READY:
                worker.is_ready = True
                self._failed_starts = 0
            elif message.startswith(PROGRESS):
                done, total = message.removeprefix(PROGRESS).split()
                events.append(ProgressReport(self._running[index].task.number, int(done), int(total)))
            else:
                self._lost_tasks.add_completed(self._running.pop(index).task)
                events.append(unpickle_result(message))
                worker.forward_stderr()
        if died:
            self._workers[index] = None
            self._handle_worker_death(index, worker)
        return events

    def _handle_worker_death(self, index: int, worker: Worker) -> None:
        """Queue the task of a dead worker again, or note it as lost after the last attempt."""
        death = worker.describe_death()
        worker.stop(now=False)
        if worker.process.exitcode == SCRIPT_WITHOUT_GUARD:
            raise RunError(
                "each worker process imports your script, which then calls lf.run again; put the call under "
                '`if __name__ == "__main__":`, or set engine.workers to 0'
            )
        if not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_ATTEMPTS and not self._has_worker():
                raise RunError(
                    f"worker processes cannot start ({death}); fix the cause and give the same command again"
                )
            return
        attempts = self._running.pop(index, None)
        if attempts is None:
            return
        attempts.deaths.append(death)
        match MAX_ATTEMPTS - len(attempts.deaths):
            case 0:
                summary = f"its worker process died {MAX_ATTEMPTS} times, the last time alone on the machine"
                self._lost_tasks.add(LostTask(attempts.task, summary, death))
            case 1:
                self._last_attempts.append(attempts)
            case _:
                self._queue.append(attempts)

    def _assign_tasks(self) -> None:
        """Send waiting tasks to idle workers."""
        while waiting := self._last_attempts or self._queue:
            if self._running and (
                self._last_attempts or any(each.is_last for each in self._running.values())
            ):
                return
            index = self._idle_worker()
            if index is None:
                return
            attempts = waiting.popleft()
            self._running[index] = attempts
            worker = self._workers[index]
            assert worker is not None
            worker.send(attempts.call)

    def _idle_worker(self) -> int | None:
        """Return the index of a worker that is ready and idle; start one if there is none."""
        for index, worker in enumerate(self._workers):
            if worker is not None and worker.is_ready and index not in self._running:
                return index
        if self._failed_starts >= MAX_ATTEMPTS and self._has_worker():
            return None  # continue with the workers that did start
        starting = sum(worker is not None and not worker.is_ready for worker in self._workers)
        if starting < len(self._queue) + len(self._last_attempts) and None in self._workers:
            index = self._workers.index(None)
            stderr_file = self._stderr_directory / f"{self._started}.txt"
            self._workers[index] = Worker(stderr_file, self._gpus[index])
            self._started += 1
        return None

    def _has_worker(self) -> bool:
        """Return True if any worker runs or starts."""
        return any(worker is not None for worker in self._workers)


def _exit_if_imported_by_worker() -> None:
    """End a worker that imports the user's script when the script tries to start workers itself."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(SCRIPT_WITHOUT_GUARD)
