"""What worker processes have in common: they end with their parent, and say how far they are."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[int, int], None]


def unheard(done: int, total: int) -> None:
    """Nobody wants to know how far a task is."""


_tell: Tell = unheard  # replaced while a task is carried out


def report(done: int, total: int) -> None:
    """In a task: say how far it is, for the display; where nobody listens it does nothing.

    Example:
        >>> report(3, 10)
    """
    _tell(done, total)


@contextmanager
def heard_by(tell: Tell) -> Iterator[None]:
    """While this lasts, what is reported in this process goes to ``tell``."""
    global _tell  # noqa: PLW0603 - one task at a time in a process
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before


def end_with_parent() -> None:
    """In a worker: end when the process that started it is gone, however that one ended.

    A killed parent cannot tell its workers to stop; without this they would wait for work for ever.
    Hand it to a process pool as ``initializer``. In a process that is nobody's worker it does nothing.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
