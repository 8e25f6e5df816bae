"""Tasks on the processes that torchrun started: rank 0 leads, the others follow.

Rank 0 alone carries out the protocol. A task whose function is *collective* is sent to all ranks, which work
on it together; every other task runs on rank 0.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from levelfield.engine._call import carry_out
from levelfield.engine._inline import ThisProcess
from levelfield.engine._runner import Finished, Report, Runner, Task, register
from levelfield.errors import UsageError


def started_by_torchrun() -> bool:
    """Whether this process is one of several that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_chief() -> bool:
    """Whether this process carries out the protocol and writes reports."""
    return int(os.environ.get("RANK", "0")) == 0


@register("torchrun")
def torchrun() -> AbstractContextManager[Runner]:
    """All processes that torchrun started work on each run together; it need not be named when they do."""
    if "WORLD_SIZE" not in os.environ:
        raise UsageError(
            "engine torchrun: start it with `torchrun --nproc-per-node N -m levelfield run FILE`, one "
            "process for each GPU"
        )
    return nullcontext(ThisProcess())  # of a single one; several are led by TorchrunEngine


class TorchrunEngine:
    """See the module; ``collective`` names the functions that all ranks work on together."""

    slots = 1

    def __init__(self, collective: Iterable[Callable[..., object]]) -> None:
        self._collective = {function.__qualname__: function for function in collective}
        self._tasks: deque[Task] = deque()

    @contextmanager
    def open(self) -> Iterator[TorchrunEngine]:
        """Join the process group; at the end rank 0 tells the others that there is no more work."""
        import torch
        import torch.distributed as dist

        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        try:
            yield self
        finally:
            if is_chief():
                dist.broadcast_object_list([None], src=0)
            dist.destroy_process_group()

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Runner`; on rank 0."""
        self._tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        """See :class:`levelfield.engine.Runner`; carries out one task, on all ranks if it is collective."""
        import torch.distributed as dist

        task = self._tasks.popleft()
        name = getattr(task.function, "__qualname__", "")
        if name in self._collective:
            dist.broadcast_object_list([(name, task.job)], src=0)
        return [carry_out(task.number, task.function, task.job)]

    def follow(self) -> None:
        """On every other rank: work on what rank 0 sends, until it sends nothing more."""
        import torch.distributed as dist

        while True:
            box: list[tuple[str, object] | None] = [None]
            dist.broadcast_object_list(box, src=0)
            if box[0] is None:
                return
            name, job = box[0]
            self._collective[name](job)
