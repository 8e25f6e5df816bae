"""Flows: what an experiment does, written as if nothing else went on; the scheduler runs them all at once.

A flow is a generator. It yields what it needs to go on (jobs, other flows, a condition, a pause) and is sent
what came of it. It holds nothing that the records do not: killed, it is built anew from them and wants what
it wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    """A call that a flow waits for: ``function(argument)``, somewhere.

    Attributes:
        key: Names what it computes; jobs of the same key are carried out once.
        function: A function of a module, which can be pickled, as can the argument.
        argument: What it is called with.
        row: Whose job it is, as the display calls it.
        stage: "features", "search", "propose", "confirm", "score" or "gallery".
        urgency: Of jobs that wait, the one with most of it goes first: how much still has to come after it.
        known: Gives the result if it is on record already, else None.
        lost: Records that the job's process died each time, and why; gives what is the result then. Without
            it that ends the experiment.
        reads: The files and folders that it finds; see :class:`levelfield.engine.Task`.
        writes: Those that it leaves.
    """

    key: str
    function: Callable[[Any], Any]
    argument: Any
    row: str
    stage: str
    urgency: float = 0.0
    known: Callable[[], Any] = lambda: None
    lost: Callable[[str], Any] | None = None
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Jobs:
    """A flow wants the results of these jobs, in this order."""

    jobs: Sequence[Job]


@dataclass(frozen=True)
class Together:
    """A flow wants what these flows return, in this order; they go on at the same time."""

    flows: Sequence[Flow[Any]]


@dataclass(frozen=True)
class Until:
    """A flow wants to go on when this is true; it becomes so by what another flow does."""

    condition: Callable[[], bool]


@dataclass(frozen=True)
class Pause:
    """A flow wants to go on after so many seconds."""

    seconds: float


Wish = Jobs | Together | Until | Pause
Flow = Generator[Wish, Any, Result]
