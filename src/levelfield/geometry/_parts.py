"""Work in portions where one go would take too much memory."""

from __future__ import annotations

from collections.abc import Iterator

ENTRIES_AT_ONCE = 1 << 21


def parts(number: int, width: int) -> Iterator[slice]:
    """Slices that cut ``number`` rows of ``width`` entries into portions of about two million entries.

    Example:
        >>> list(parts(5, 1 << 20))
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, ENTRIES_AT_ONCE // max(width, 1))
    return (slice(start, min(start + step, number)) for start in range(0, number, step))
