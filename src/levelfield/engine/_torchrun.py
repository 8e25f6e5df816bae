"""Engine for the processes that torchrun started.

Rank zero alone executes the protocol. A task whose function is *collective* is sent to all ranks, which
execute it together; every other task runs on rank zero.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta

from levelfield.core.errors import RunError, UsageError
from levelfield.core.processes import end_when_orphaned
from levelfield.engine._engine import Engine, ProgressReport, Task, TaskResult, register
from levelfield.engine._execute import execute_task
from levelfield.engine._inline import InlineEngine

MEETING_SECONDS = 60.0  # torchrun opens the meeting point before it starts a rank, so it answers at once


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
        end_when_orphaned()
        _join_group("nccl" if torch.cuda.is_available() else "gloo")
        # After an error the other ranks may be in the middle of a run, where a message would mix with its
        # tensors. This process then just ends, and torchrun ends the others.
        yield self
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
        if name not in self._collective:
            return [execute_task(task.number, task.function, task.job)]
        with _one_line_for_a_lost_rank():
            dist.broadcast_object_list([(name, task.job)], src=0)
        result = execute_task(task.number, task.function, task.job)
        if _is_lost_rank(result.error):
            result = TaskResult(task.number, error=_lost_rank_error(), seconds=result.seconds)
        return [result]

    def follow(self) -> None:
        """Execute the collective tasks of rank zero on another rank, until rank zero stops."""
        import torch.distributed as dist

        while True:
            message: list[tuple[str, object] | None] = [None]
            with _one_line_for_a_lost_rank():
                dist.broadcast_object_list(message, src=0)
                if message[0] is None:
                    return
                name, job = message[0]
                self._collective[name](job)


def _join_group(backend: str) -> None:
    """Join the process group of torchrun; end in one line if torchrun is gone.

    PyTorch would try to reach a killed torchrun for half an hour.
    """
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":  # rank zero may start much later
        dist.init_process_group(backend)
        return
    try:
        # torchrun listens before it starts a rank. PyTorch repeats a refused connection for minutes.
        meeting_point = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        socket.create_connection(meeting_point, timeout=MEETING_SECONDS).close()
        store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=MEETING_SECONDS)))
    except (OSError, dist.DistError) as error:
        raise RunError("torchrun has ended; give the same command again: it continues") from error
    store.set_timeout(dist.default_pg_timeout)  # other ranks may start later
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


@contextmanager
def _one_line_for_a_lost_rank() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if _is_lost_rank(error):
            raise _lost_rank_error() from error
        raise


def _is_lost_rank(error: BaseException | None) -> bool:
    """Return True for the error of a collective operation whose other process has ended."""
    texts = ("connection closed by peer", "connection reset by peer", "broken pipe", "gloo/transport")
    return isinstance(error, RuntimeError) and any(text in str(error).lower() for text in texts)


def _lost_rank_error() -> RunError:
    return RunError(
        "another process of torchrun has ended; its message, if it had one, is above. Give the same command "
        "again: it continues"
    )
