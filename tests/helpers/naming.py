"""Name of the case in a loop that failed, where an item per case would cost more than the case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Value = TypeVar("Value")


def each_named(cases: Iterable[Value]) -> Iterator[tuple[Value, CaseName]]:
    """Yield each case with a context that adds the case to the error raised in it."""
    for case in cases:
        yield case, CaseName(str(case))


class CaseName:
    """Context that adds a note with the name of the case to an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            error.add_note(f"in the case: {self._name}")
