"""Engine for the processes that torchrun started.

Rank zero alone executes the protocol. A task whose function is *collective* is sent to all ranks, which
execute it together; every other task runs on rank zero.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from levelfield.core.errors import UsageError
from levelfield.engine._engine import Engine, ProgressReport, Task, TaskResult, register
from levelfield.engine._execute import execute_task
from levelfield.engine._inline import InlineEngine


def started_by_torchrun() -> bool:
    """Return True if this process is one of several that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_rank_zero() -> bool:
    """Return True if this process executes the protocol and writes reports."""
    return int(os.environ.get("RANK", "0")) == 0


@register("torchrun")
def torchrun() -> AbstractContextManager[Engine]:
    """Execute each run on all processes that torchrun started; under torchrun it is the default."""
    if "WORLD_SIZE" not in os.environ:
        raise UsageError(
            "engine torchrun: start it with `torchrun --nproc-per-node N -m levelfield run FILE`, one "
            "process for each GPU"
        )
    return nullcontext(InlineEngine())  # for a single process; several use TorchrunEngine


class TorchrunEngine:
    """Engine of several ranks; see the module.

    Args:
        collective: Functions that all ranks execute together.
    """

    slots = 1

    def __init__(self, collective: Iterable[Callable[..., object]]) -> None:
        self._collective = {function.__qualname__: function for function in collective}
        self._tasks: deque[Task] = deque()

    @contextmanager
    def open(self) -> Iterator[TorchrunEngine]:
        """Join the process group; at the end rank zero tells the other ranks to stop."""
        import torch
        import torch.distributed as dist

        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        try:
            yield self
        finally:
            if is_rank_zero():
                dist.broadcast_object_list([None], src=0)
            dist.destroy_process_group()

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Engine`; on rank zero."""
        self._tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        """See :class:`levelfield.engine.Engine`; executes one task, on all ranks if it is collective."""
        import torch.distributed as dist

        task = self._tasks.popleft()
        name = getattr(task.function, "__qualname__", "")
        if name in self._collective:
            dist.broadcast_object_list([(name, task.job)], src=0)
        return [execute_task(task.number, task.function, task.job)]

    def follow(self) -> None:
        """Execute the collective tasks of rank zero on another rank, until rank zero stops."""
        import torch.distributed as dist

        while True:
            message: list[tuple[str, object] | None] = [None]
            dist.broadcast_object_list(message, src=0)
            if message[0] is None:
                return
            name, job = message[0]
            self._collective[name](job)
