"""Limit on the number of searches by client, so that one client cannot keep others waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MAX_CLIENTS = 10_000  # remembered at once


class RateError(Exception):
    """Client that searches too often; ``seconds`` is the time to wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, int(seconds + 1))
        super().__init__(f"too many searches; try again in {self.seconds} s")


class RateLimit:
    """Number of searches that each client may make per minute.

    A client that was quiet for a minute may make all of them at once (a token bucket).

    Args:
        per_minute: Number of searches; 0 for no limit.
        clock: Function that returns the time in seconds.

    Example:
        >>> limit = RateLimit(2, clock=lambda: 0.0)
        >>> limit.spend("a"); limit.spend("a"); limit.spend("b")
        >>> limit.spend("a")
        Traceback (most recent call last):
        ...
        levelfield.reports.web._rates.RateError: too many searches; try again in 31 s
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = per_minute, clock
        self._clients: dict[str, tuple[float, float]] = {}  # searches left, and when that was
        self._lock = threading.Lock()

    def spend(self, client: str, count: int = 1) -> None:
        """Count searches of a client.

        A request with more searches than the limit is allowed once the client has all of them left; it then
        waits the longer.

        Raises:
            RateError: The client has not enough searches left.
        """
        if not self._size:
            return
        with self._lock:
            now = self._clock()
            left, since = self._clients.pop(client, (float(self._size), now))
            left = min(self._size, left + (now - since) * self._size / 60)
            needed = min(count, self._size)
            allowed = left >= needed
            self._clients[client] = (left - count if allowed else left, now)
            while len(self._clients) > MAX_CLIENTS:  # the first one was quiet for the longest time
                self._clients.pop(next(iter(self._clients)))
        if not allowed:
            raise RateError((needed - left) * 60 / self._size)
