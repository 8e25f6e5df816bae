"""What an engine is: something that carries out tasks somewhere, and the registry of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from levelfield.config import EngineSpec
from levelfield.errors import RunError
from levelfield.registry import Card, Registry

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Task:
    """One call to carry out: ``function(job)``. Both can be pickled; ``number`` names it in the answer.

    ``reads`` and ``writes`` are the files and folders that the task finds and leaves: all that an engine
    needs to know whose machines share no files. Absolute paths.
    """

    number: int
    function: Callable[[Any], Any]
    job: Any
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()

    @property
    def kind(self) -> str:
        """What it does, in the words of the code."""
        return getattr(self.function, "__qualname__", repr(self.function))


@dataclass(frozen=True)
class Finished:
    """What came of a task: its result, or the error that it ended with; and the seconds that it took."""

    number: int
    result: Any = None
    error: BaseException | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Report:
    """How far a long task is: ``done`` of ``total``. See :func:`levelfield.engine.report`."""

    number: int
    done: int
    total: int


class LostTaskError(RunError):
    """A task whose process, or whose machine, died each time that it was tried."""


class Runner(Protocol):
    """Carries out tasks.

    An engine of your own is a function that gives a context manager of a Runner; the context starts what the
    engine needs and ends it whatever happens, also tasks that are still under way. What a task gives depends
    on nothing but the task, so it does not matter where and in which order they run. Tasks read
    and write files under the driver's paths; an engine whose machines do not share them carries them over
    (see :class:`Task`)::

        @lf.engine.register("one_by_one")
        @contextmanager
        def one_by_one(*, workers: int = 1) -> Iterator[Runner]:
            yield MyRunner(workers)

    and ``engine: {name: one_by_one}`` in the experiment file. It may take ``workers``, ``threads`` and
    ``device``, which every experiment has, and options of its own.
    """

    @property
    def slots(self) -> int:
        """How many tasks it wants to hold at once; asked again before each :meth:`submit`."""
        ...

    def submit(self, task: Task) -> None:
        """Take a task, without waiting for it."""
        ...

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        """Wait until something happened to the tasks, or ``timeout`` seconds; what happened since."""
        ...


registry: Registry[Card] = Registry("engine", Card, package="levelfield.engine")
register = registry.register


def create(spec: EngineSpec) -> AbstractContextManager[Runner]:
    """The engine that an experiment asks for.

    Example:
        >>> with create(EngineSpec(workers=0)) as engine:
        ...     run_all(engine, abs, [-1, 2])
        [1, 2]
    """
    check(spec)
    common = {"workers": spec.workers, "threads": spec.threads, "device": spec.device}
    taken = registry[spec.name].parameters
    given = {name: value for name, value in common.items() if name in taken}
    engine: AbstractContextManager[Runner] = registry.create(spec.name, **given, **spec.options)
    return engine


def check(spec: EngineSpec) -> None:
    """Refuse an engine that is not known, and options that it does not take."""
    registry.check_options(registry[spec.name], spec.options)


def run_all(runner: Runner, function: Callable[[Job], Result], jobs: Iterable[Job]) -> list[Result]:
    """The results of ``function`` in the order of the jobs; the first failure is raised."""
    waiting = [Task(number, function, job) for number, job in enumerate(jobs)][::-1]
    results: dict[int, Result] = {}
    total = len(waiting)
    held = 0
    while len(results) < total:
        while waiting and held < max(1, runner.slots):
            runner.submit(waiting.pop())
            held += 1
        for event in runner.wait():
            if isinstance(event, Finished):
                if event.error is not None:
                    raise event.error
                results[event.number] = event.result
                held -= 1
    return [results[number] for number in range(total)]
