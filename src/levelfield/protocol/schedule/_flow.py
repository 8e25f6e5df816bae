"""Flows: the steps of an experiment as generators; the scheduler runs all of them concurrently.

A flow yields a request (for jobs, other flows, a condition or a delay) and is resumed with the result. All
its state is in the records: after a kill, a new flow built from the records makes the same requests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    """A call ``function(argument)`` that the scheduler hands to the engine.

    Attributes:
        key: Identifies the result; jobs with the same key run once.
        function: Module-level function, so that it can be pickled.
        argument: Its only argument; must be picklable.
        row: Name of the progress row that counts the job.
        stage: "features", "search", "propose", "confirm", "score" or "gallery".
        priority: Higher runs first; the number of steps that depend on the job.
        load_result: Returns the recorded result, or None if there is none.
        on_lost: Called with the reason when the job's process died in every attempt; records the failure and
            returns the result to use. None ends the experiment instead.
        reads: Files and directories that the job reads; see :class:`levelfield.engine.Task`.
        writes: Files and directories that the job writes.
    """

    key: str
    function: Callable[[Any], Any]
    argument: Any
    row: str
    stage: str
    priority: float = 0.0
    load_result: Callable[[], Any] = lambda: None
    on_lost: Callable[[str], Any] | None = None
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()


@dataclass(frozen=True)
class WaitForJobs:
    """Request for the results of jobs, in this order."""

    jobs: Sequence[Job]


@dataclass(frozen=True)
class WaitForFlows:
    """Request for the return values of flows, in this order; the flows run concurrently."""

    flows: Sequence[Flow[Any]]


@dataclass(frozen=True)
class WaitUntil:
    """Request to resume when a condition is true; another flow makes it true."""

    condition: Callable[[], bool]


@dataclass(frozen=True)
class Sleep:
    """Request to resume after a number of seconds."""

    seconds: float


FlowRequest = WaitForJobs | WaitForFlows | WaitUntil | Sleep
Flow = Generator[FlowRequest, Any, Result]
