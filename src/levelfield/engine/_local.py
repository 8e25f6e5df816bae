"""Tasks on processes of this machine. What a task does is none of the engine's business.

A worker that dies is replaced, and its task is tried again: the third time alone on the machine, so that a
lack of memory is then its own. If it dies again, the task is lost, and says why; the others go on.
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

from levelfield.engine._call import packed_call, unpacked
from levelfield.engine._inline import ThisProcess
from levelfield.engine._machine import gpu_of_each, worker_count
from levelfield.engine._runner import Finished, Report, Runner, Task, register
from levelfield.engine._verdicts import TRIES, Lost, Verdicts
from levelfield.engine._worker import READY, REPORT, SCRIPT_WITHOUT_GUARD, Worker
from levelfield.errors import RunError


@register("local")
def local(
    *,
    workers: int | Literal["auto"] = 1,
    threads: int = 1,
    device: str = "cpu",
    runs_per_gpu: Annotated[int, Field(ge=1, le=64)] = 1,
) -> AbstractContextManager[Runner]:
    """Processes of this machine; with ``workers: 0`` this process itself, with ``auto`` one for each core.

    On ``device: cuda`` each run has a GPU of its own, or shares it with ``runs_per_gpu`` others.
    """
    _leave_if_imported_by_a_worker()  # also without workers: runs have loader processes
    count = worker_count(workers, threads=threads, device=device, runs_per_gpu=runs_per_gpu)
    if count == 0:
        return nullcontext(ThisProcess())
    return LocalEngine(workers=count, gpus=gpu_of_each(count, device=device)).open()


@dataclass
class _Attempt:
    """A task, the bytes of its call, and how its workers died so far."""

    task: Task
    call: bytes
    deaths: list[str] = field(default_factory=list)

    @property
    def is_alone(self) -> bool:
        """Whether it has the machine for itself."""
        return len(self.deaths) == TRIES - 1


class LocalEngine:
    """See the module.

    Example:
        >>> from levelfield.engine import run_all
        >>> with LocalEngine(workers=1).open() as engine:
        ...     run_all(engine, abs, [-1, 2])
        [1, 2]
    """

    def __init__(self, *, workers: int, gpus: Sequence[str | None] = ()) -> None:
        self._gpus = list(gpus) or [None] * workers  # which one each worker sees
        self._places: list[Worker | None] = [None] * workers
        self._busy: dict[int, _Attempt] = {}  # by place
        self._queue: deque[_Attempt] = deque()
        self._alone: deque[_Attempt] = deque()  # those that have the machine for themselves
        self._verdicts = Verdicts()
        self._failed_starts = 0  # in a row
        self._words = Path()
        self._started = 0

    @property
    def slots(self) -> int:
        """As many as there are workers; a task that may be lost does not keep others from being tried."""
        return len(self._places) + len(self._verdicts)

    @contextmanager
    def open(self) -> Iterator[LocalEngine]:
        """Workers start when there is something to do, and end whatever happens."""
        _leave_if_imported_by_a_worker()
        with tempfile.TemporaryDirectory(prefix="levelfield-workers-") as folder:
            self._words = Path(folder)
            try:
                yield self
            finally:
                for place, worker in enumerate(self._places):
                    if worker is not None:
                        worker.pass_on()
                        worker.end(now=place in self._busy or not worker.is_ready)
                        self._places[place] = None

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Runner`."""
        self._queue.append(_Attempt(task, packed_call(task.number, task.function, task.job)))
        self._hand_out()

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        """See :class:`levelfield.engine.Runner`."""
        events: list[Finished | Report] = []
        while not events:
            self._hand_out()
            events += self._verdicts.spoken(idle=not (self._busy or self._queue or self._alone))
            alive = [worker for worker in self._places if worker is not None]
            if events or not alive:
                break
            watched = [item for w in alive for item in (w.connection, w.process.sentinel)]
            if not multiprocessing.connection.wait(watched, timeout):
                break
            before = len(self._verdicts)
            for place, worker in enumerate(self._places):
                if worker is not None:
                    events += self._hear(place, worker)
            if len(self._verdicts) > before:
                break  # there is a slot more: whoever asked may have another task to try
        self._hand_out()
        return events

    def _hear(self, place: int, worker: Worker) -> list[Finished | Report]:
        """What has happened at one place since the last look."""
        died = worker.process.exitcode is not None  # asked first: what it sent before it died still counts
        events: list[Finished | Report] = []
        for message in worker.messages():
            if message == READY:
                worker.is_ready = True
                self._failed_starts = 0
            elif message.startswith(REPORT):
                done, total = message.removeprefix(REPORT).split()
                events.append(Report(self._busy[place].task.number, int(done), int(total)))
            else:
                self._verdicts.works(self._busy.pop(place).task)
                events.append(unpacked(message))
                worker.pass_on()
        if died:
            self._places[place] = None
            self._bury(place, worker)
        return events

    def _bury(self, place: int, worker: Worker) -> None:
        """See to the task of a worker that has died: it is tried again, or may be lost."""
        how = worker.how_it_died()
        worker.end(now=False)
        if worker.process.exitcode == SCRIPT_WITHOUT_GUARD:
            raise RunError(
                "each worker process imports your script, which then calls lf.run again; put the call under "
                '`if __name__ == "__main__":`, or set engine.workers to 0'
            )
        if not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= TRIES and not self._has_worker():
                raise RunError(
                    f"worker processes cannot start ({how}); mend it and give the same command again"
                )
            return
        attempt = self._busy.pop(place, None)
        if attempt is None:
            return
        attempt.deaths.append(how)
        match TRIES - len(attempt.deaths):
            case 0:
                story = f"its worker process died {TRIES} times, the last time alone on the machine"
                self._verdicts.lose(Lost(attempt.task, story, how))
            case 1:
                self._alone.append(attempt)
            case _:
                self._queue.append(attempt)

    def _hand_out(self) -> None:
        """Give waiting tasks to free workers."""
        while waiting := self._alone or self._queue:
            if self._busy and (self._alone or any(each.is_alone for each in self._busy.values())):
                return
            place = self._free_place()
            if place is None:
                return
            attempt = waiting.popleft()
            self._busy[place] = attempt
            worker = self._places[place]
            assert worker is not None
            worker.send(attempt.call)

    def _free_place(self) -> int | None:
        """A place whose worker is ready and idle; starts a worker at an empty place if there is none."""
        for place, worker in enumerate(self._places):
            if worker is not None and worker.is_ready and place not in self._busy:
                return place
        if self._failed_starts >= TRIES and self._has_worker():
            return None  # the others go on without it
        starting = sum(worker is not None and not worker.is_ready for worker in self._places)
        if starting < len(self._queue) + len(self._alone) and None in self._places:
            place = self._places.index(None)
            self._places[place] = Worker(self._words / f"{self._started}.txt", self._gpus[place])
            self._started += 1
        return None

    def _has_worker(self) -> bool:
        """Whether there is any worker, if only one that is starting."""
        return any(worker is not None for worker in self._places)


def _leave_if_imported_by_a_worker() -> None:
    """End a worker that is importing the user's script, when the script comes to start workers itself."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(SCRIPT_WITHOUT_GUARD)
