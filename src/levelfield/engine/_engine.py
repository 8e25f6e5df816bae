"""The interface of engines, their registry, and the tasks that they execute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from levelfield.config import EngineSpec
from levelfield.core.errors import RunError
from levelfield.core.registry import Card, Registry

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
FetchAttachment = Callable[[str, Path], Path]


@dataclass(frozen=True)
class Task:
    """One call to execute: ``function(job)``. Both can be pickled.

    Attributes:
        number: Identifies the task in its result.
        function: Called with ``job``.
        job: The only argument.
        reads: Files and directories that the task reads; absolute paths.
        writes: Files and directories that the task writes; absolute paths. An engine whose machines share no
            files sends ``reads`` with the task and brings ``writes`` back.
    """

    number: int
    function: Callable[[Any], Any]
    job: Any
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()

    @property
    def kind(self) -> str:
        """Qualified name of the function."""
        return getattr(self.function, "__qualname__", repr(self.function))


@runtime_checkable
class PortableJob(Protocol):
    """Job that needs more than ``Task.reads`` on a machine that shares no files with the driver.

    Engines for such machines send the plug-ins with each task, and an attachment only to a machine that
    lacks it. A job without these members is sent as it is.

    Attributes:
        checkpoint_file: Name of the file that the task replaces each time it saves its state; "" if none.
        result_file: Name of the file that marks the task as finished; the driver writes it last.
    """

    checkpoint_file: str
    result_file: str

    def plugin_files(self) -> Mapping[str, Path]:
        """Return the paths of the user's plug-in files by digest."""
        ...

    def attachments(self) -> Mapping[str, Path]:
        """Return the driver's files and directories that a machine may lack, by name."""
        ...

    def localize(self, plugins: Mapping[str, Path], fetch: FetchAttachment) -> PortableJob:
        """Return the same job with the paths of this machine.

        Args:
            plugins: Paths of the plug-in files on this machine, by digest.
            fetch: ``fetch(name, directory)`` fills ``directory`` with an attachment from the driver, unless
                the directory exists, and returns ``directory``.
        """
        ...


@dataclass(frozen=True)
class TaskResult:
    """Result of a task, or the error that it ended with, and its duration in seconds."""

    number: int
    result: Any = None
    error: BaseException | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class ProgressReport:
    """Progress of a running task: ``done`` of ``total``. See :func:`levelfield.engine.report_progress`."""

    number: int
    done: int
    total: int


class LostTaskError(RunError):
    """Error of a task whose process or machine died at every attempt."""


class Engine(Protocol):
    """Executes tasks.

    To write an engine, register a function that returns a context manager of an Engine. The context starts
    what the engine needs and ends it in all cases, with the tasks that still run. The result of a task
    depends on the task alone, so place and order do not matter. Tasks read and write files under the
    driver's paths; an engine whose machines do not share them must copy them (see :class:`Task`)::

        @lf.engine.register("one_by_one")
        @contextmanager
        def one_by_one(*, workers: int = 1) -> Iterator[Engine]:
            yield MyEngine(workers)

    Select it with ``engine: {name: one_by_one}`` in the experiment file. The function may take ``workers``,
    ``threads`` and ``device``, which every experiment has, and options of its own.
    """

    @property
    def slots(self) -> int:
        """Number of tasks to hold at once; read again before each :meth:`submit`."""
        ...

    def submit(self, task: Task) -> None:
        """Accept a task without waiting for it."""
        ...

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        """Wait for the next event, at most ``timeout`` seconds, and return the events since the last call."""
        ...


registry = Registry("engine", Card, package="levelfield.engine")
register = registry.register


def create(spec: EngineSpec) -> AbstractContextManager[Engine]:
    """Return the engine of an experiment, as a context manager.

    Example:
        >>> with create(EngineSpec(workers=0)) as engine:
        ...     run_tasks(engine, abs, [-1, 2])
        [1, 2]
    """
    check_engine(spec)
    common = {"workers": spec.workers, "threads": spec.threads, "device": spec.device}
    taken = registry[spec.name].parameters
    given = {name: value for name, value in common.items() if name in taken}
    engine: AbstractContextManager[Engine] = registry.create(spec.name, **given, **spec.options)
    return engine


def check_engine(spec: EngineSpec) -> None:
    """Raise UsageError if the engine is unknown or does not take the options of ``spec``."""
    registry.check_options(registry[spec.name], spec.options)


def run_tasks(engine: Engine, function: Callable[[JobT], ResultT], jobs: Iterable[JobT]) -> list[ResultT]:
    """Return the results of ``function`` in the order of the jobs; raise the first error."""
    waiting = [Task(number, function, job) for number, job in enumerate(jobs)][::-1]
    results: dict[int, ResultT] = {}
    total = len(waiting)
    held = 0
    while len(results) < total:
        while waiting and held < max(1, engine.slots):
            engine.submit(waiting.pop())
            held += 1
        for event in engine.wait():
            if isinstance(event, TaskResult):
                if event.error is not None:
                    raise event.error
                results[event.number] = event.result
                held -= 1
    return [results[number] for number in range(total)]
