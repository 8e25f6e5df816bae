"""Mapping whose values are computed when they are first read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class ComputedOnce(Mapping[Key, Value]):
    """Mapping with known keys; each value is computed at its first use and kept. Threads may share it.

    Args:
        keys: All keys, in their order.
        compute: Returns the value of a key.

    Example:
        >>> squares = ComputedOnce([2, 3], lambda key: key * key)
        >>> squares[3], len(squares), 4 in squares
        (9, 2, False)
    """

    def __init__(self, keys: Iterable[Key], compute: Callable[[Key], Value]) -> None:
        self._locks = {key: threading.Lock() for key in keys}
        self._compute = compute
        self._values: dict[Key, Value] = {}

    def __getitem__(self, key: Key) -> Value:
        with self._locks[key]:
            if key not in self._values:
                self._values[key] = self._compute(key)
            return self._values[key]

    def __contains__(self, key: object) -> bool:
        return key in self._locks

    def __iter__(self) -> Iterator[Key]:
        return iter(self._locks)

    def __len__(self) -> int:
        return len(self._locks)
