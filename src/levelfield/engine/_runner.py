"""What the protocol needs of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class Runner(Protocol):
    """Carries out jobs somewhere."""

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        on_done: Callable[[], None] = lambda: None,
    ) -> list[Result]:
        """The results of ``function`` in the order of the jobs; ``on_done`` is called after each."""
        ...
