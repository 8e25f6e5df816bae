"""Helpers for worker processes: exit with the parent, progress reports, and a watchdog."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TaskProgressCallback = Callable[[int, int], None]
WATCHDOG_SECONDS = 60.0  # without any event; then a message says what this process waits for


def ignore_progress(done: int, total: int) -> None:
    """No-op progress callback."""


_progress_callback: TaskProgressCallback = ignore_progress  # replaced while a task is executed


def report_progress(done: int, total: int) -> None:
    """Report the progress of the current task to the progress callback of this process, if there is one.

    Example:
        >>> report_progress(3, 10)
    """
    _progress_callback(done, total)


@contextmanager
def use_progress_callback(callback: TaskProgressCallback) -> Iterator[None]:
    """Send the progress that is reported in this process to ``callback`` inside the block."""
    global _progress_callback  # noqa: PLW0603 - one task at a time in a process
    before, _progress_callback = _progress_callback, callback
    try:
        yield
    finally:
        _progress_callback = before


def end_with_parent() -> None:
    """Exit this worker process when its parent process ends for any reason.

    A killed parent cannot stop its workers; they would wait for tasks forever. Pass this function to a
    process pool as ``initializer``. It does nothing in a process without a parent.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def end_when_orphaned(*, every: float = 0.5) -> None:
    """Exit this process when the process that started it has ended, whatever kind of process that was.

    Args:
        every: Seconds between two looks.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(every)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Watchdog:
    """Thread that calls ``report`` with the seconds since the last :meth:`reset`, once per ``patience``.

    Args:
        report: Called in the thread of the watchdog.
        patience: Seconds without a reset before the first report, and between two reports.
    """

    def __init__(self, report: Callable[[float], None], *, patience: float = WATCHDOG_SECONDS) -> None:
        self._report, self._patience = report, patience
        self._last = time.monotonic()

    def reset(self) -> None:
        """Note that something has happened."""
        self._last = time.monotonic()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch inside the block."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        self.reset()
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _watch(self, ended: threading.Event) -> None:
        due = self._patience
        while not ended.wait(max(0.01, due - (time.monotonic() - self._last))):
            silent = time.monotonic() - self._last
            if silent < self._patience:
                due = self._patience  # something has happened since
            elif silent >= due:
                due = silent + self._patience
                self._report(silent)
