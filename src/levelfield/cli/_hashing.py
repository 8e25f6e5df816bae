"""Lines on standard error while a large dataset is hashed for the first time."""

from __future__ import annotations

import sys
import time

SILENT_SECONDS = 2.0  # a small dataset is hashed before
LINE_SECONDS = 0.5  # between updates on a terminal
LOG_SECONDS = 30.0  # between lines in a file


class HashingLines:
    """Callback of :func:`levelfield.core.hashing.report_hashing`."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._shown = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Show the progress if enough time has passed."""
        now = time.monotonic()
        self._began = self._began or now
        terminal = sys.stderr.isatty()
        finished = done >= total
        if now - self._began >= SILENT_SECONDS:
            pause = LINE_SECONDS if terminal else LOG_SECONDS
            if now - self._shown >= pause or (finished and self._shown):
                text = f"reading {done:,} of {total:,} images to identify them (once; it is remembered)"
                end = "" if terminal and not finished else "\n"
                print(f"\r{text}" if terminal else text, end=end, file=sys.stderr, flush=True)
                self._shown = now
        if finished:
            self._began, self._shown = None, 0.0
