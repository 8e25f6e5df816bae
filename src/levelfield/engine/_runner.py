"""What an engine is: something that carries out jobs somewhere, and the registry of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from levelfield.config import EngineSpec
from levelfield.registry import Card, Registry

Job = TypeVar("Job")
Result = TypeVar("Result")


class Runner(Protocol):
    """Carries out jobs.

    An engine of your own is a function that gives a context manager of a Runner; the context starts what the
    engine needs and ends it whatever happens. Jobs and functions can be pickled, and a job's result depends
    on nothing but the job, so it does not matter where and in which order they run. All jobs write their
    records into one folder, which must be reachable under the same path wherever they run::

        @lf.engine.register("one_by_one")
        @contextmanager
        def one_by_one(*, workers: int = 1) -> Iterator[Runner]:
            yield MyRunner(workers)

    and ``engine: {name: one_by_one}`` in the experiment file. It may take ``workers``, ``threads`` and
    ``device``, which every experiment has, and options of its own.
    """

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        on_done: Callable[[], None] = lambda: None,
    ) -> list[Result]:
        """The results of ``function`` in the order of the jobs; ``on_done`` is called after each.

        The first failure ends the map and is raised here.
        """
        ...


registry: Registry[Card] = Registry("engine", Card, package="levelfield.engine")
register = registry.register


def create(spec: EngineSpec) -> AbstractContextManager[Runner]:
    """The engine that an experiment asks for.

    Example:
        >>> with create(EngineSpec(workers=0)) as engine:
        ...     engine.map(abs, [-1, 2])
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
