"""Jobs on the processes that torchrun started: rank 0 leads, the others follow.

Rank 0 alone carries out the protocol. A job whose function is *collective* is sent to all ranks, which work
on it together; every other job runs on rank 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def started_by_torchrun() -> bool:
    """Whether this process is one of several that torchrun started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_chief() -> bool:
    """Whether this process carries out the protocol and writes reports."""
    return int(os.environ.get("RANK", "0")) == 0


class TorchrunEngine:
    """See the module; ``collective`` names the functions that all ranks work on together."""

    def __init__(self, collective: Iterable[Callable[..., object]]) -> None:
        self._collective = {function.__qualname__: function for function in collective}

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

    def map(
        self,
        function: Callable[[Job], Result],
        jobs: Iterable[Job],
        *,
        on_done: Callable[[], None] = lambda: None,
    ) -> list[Result]:
        """On rank 0: the results in the order of the jobs."""
        import torch.distributed as dist

        results = []
        for job in jobs:
            if function.__qualname__ in self._collective:
                dist.broadcast_object_list([(function.__qualname__, job)], src=0)
            results.append(function(job))
            on_done()
        return results

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
