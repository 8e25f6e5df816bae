"""Jobs on local processes. What a job does is none of the engine's business.

Workers are spawned, not forked (forking a process that has used threads is unsafe), live for the whole
experiment (importing torch takes seconds), and end by themselves when their parent is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

from levelfield.errors import RunError
from levelfield.processes import end_with_parent

Job = TypeVar("Job")
Result = TypeVar("Result")


class Engine:
    """Runs a function over jobs; with ``workers=0`` in this process, one after the other."""

    def __init__(self, *, workers: int = 0) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """Start the workers, and end them whatever happens."""
        if self._workers > 0:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=get_context("spawn"),
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
        if self._pool is None:
            results = []
            for job in jobs:
                results.append(function(job))
                on_done()
            return results
        futures: list[Future[Result]] = [self._pool.submit(function, job) for job in jobs]
        try:
            for future in as_completed(futures):
                future.result()
                on_done()
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process died (out of memory, or killed); give the same command again to go on, "
                "with fewer workers (--set engine.workers=1) if memory is short"
            ) from error
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]
