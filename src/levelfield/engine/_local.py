"""Jobs on local processes. What a job does is none of the engine's business.

Workers are spawned, not forked (forking a process that has used threads is unsafe), live for the whole
experiment (importing torch takes seconds), and end by themselves when their parent is killed.
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.process import BaseProcess
from typing import TypeVar

from levelfield.engine._runner import Runner, register
from levelfield.errors import RunError
from levelfield.processes import end_with_parent

Job = TypeVar("Job")
Result = TypeVar("Result")

# What a worker ends with when the user's script, imported by the worker, wants to start workers itself.
SCRIPT_WITHOUT_GUARD = 86


@register("local")
def local(*, workers: int = 1) -> AbstractContextManager[Runner]:
    """Processes of this machine; with ``workers: 0`` this process itself."""
    return Engine(workers=workers).open()


class Engine:
    """Runs a function over jobs; with ``workers=0`` in this process, one after the other."""

    def __init__(self, *, workers: int = 0) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """Start the workers, and end them whatever happens."""
        _leave_if_imported_by_a_worker()  # also without workers: runs have loader processes
        if self._workers > 0:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=end_with_parent,
            )
        try:
            yield self
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)
                self._pool = None

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        on_done: Callable[[], None] = lambda: None,
    ) -> list[Result]:
        """The results in the order of the jobs. The first failure ends the map; finished jobs are kept."""
        try:
            if self._pool is None:
                results = []
                for job in jobs:
                    results.append(function(job))
                    on_done()
                return results
            return self._map_in_pool(self._pool, function, jobs, on_done)
        except SystemExit as error:  # from a plug-in: it must not end the experiment as if all were well
            raise RunError(
                f"the code of a run, most likely a plug-in, called sys.exit({error.code!r}); "
                "let it raise an error instead, and give the same command again"
            ) from error

    def _map_in_pool(
        self,
        pool: ProcessPoolExecutor,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        on_done: Callable[[], None],
    ) -> list[Result]:
        # Pickled here and unpickled inside the call: a module that a worker cannot import is then an error
        # of that job, with its cause, and not the silent death of the worker.
        calls = [pickle.dumps((function, job)) for job in jobs]
        futures: list[Future[Result]] = []
        workers: list[BaseProcess] = []
        try:
            futures += [pool.submit(_call, call) for call in calls]
            workers = multiprocessing.active_children()
            for future in as_completed(futures):
                future.result()
                on_done()
        except BrokenProcessPool as error:
            raise RunError(_why_a_worker_died(workers)) from error
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]


def _call(pickled: bytes) -> Result:  # type: ignore[type-var]
    """In a worker: carry out one job."""
    try:
        function, job = pickle.loads(pickled)
    except (ImportError, AttributeError) as error:
        raise RunError(
            f"a worker process cannot import what it needs ({type(error).__name__}: {error}); "
            "was the code changed while the experiment ran? Give the same command again"
        ) from error
    result: Result = function(job)
    return result


def _why_a_worker_died(workers: Iterable[BaseProcess]) -> str:
    """One line from the exit codes of the workers: negative ones are signals."""
    codes = []
    for worker in workers:
        worker.join(timeout=5)
        codes.append(worker.exitcode)
    if SCRIPT_WITHOUT_GUARD in codes:
        return (
            "each worker process imports your script, which then calls lf.run again; put the call under "
            '`if __name__ == "__main__":`, or set engine.workers to 0'
        )
    if any(code is not None and code > 0 for code in codes):
        return (
            "a worker process ended with an error before it could work; the lines above name the cause, most "
            "often something that cannot be imported. Mend it and give the same command again"
        )
    return (
        "a worker process died (out of memory, or killed); give the same command again to go on, "
        "with fewer workers (--set engine.workers=1) if memory is short"
    )


def _leave_if_imported_by_a_worker() -> None:
    """End a worker that is importing the user's script, when the script comes to start workers itself."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(SCRIPT_WITHOUT_GUARD)
