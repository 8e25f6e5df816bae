"""Chunked iteration, for computations that would take too much memory at once."""

from __future__ import annotations

from collections.abc import Iterator

CHUNK_ENTRIES = 1 << 21


def iterate_chunks(number: int, width: int) -> Iterator[slice]:
    """Return slices that cut ``number`` rows of ``width`` entries into chunks of about two million entries.

    Example:
        >>> list(iterate_chunks(5, 1 << 20))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, CHUNK_ENTRIES // max(width, 1))
    return (slice(start, min(start + step, number)) for start in range(0, number, step))
