"""Progress of hashing a dataset: reported far below the command that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

HashProgress = Callable[[int, int], None]

_callback: HashProgress | None = None


@contextmanager
def report_hashing(callback: HashProgress) -> Iterator[None]:
    """Call ``callback`` with the number of hashed files and the total while a dataset is opened in the block.

    It is called from several threads, one at a time.

    Example:
        >>> with report_hashing(lambda done, total: print(done, "of", total)):
        ...     hashing_progress(1, 2)
        1 of 2
    """
    global _callback  # noqa: PLW0603 - see the top of this file
    before, _callback = _callback, callback
    try:
        yield
    finally:
        _callback = before


def hashing_progress(done: int, total: int) -> None:
    """Report that ``done`` of ``total`` files have been hashed."""
    if _callback is not None:
        _callback(done, total)
