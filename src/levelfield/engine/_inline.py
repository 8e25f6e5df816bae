"""Tasks in this process, one after the other."""

from __future__ import annotations

from collections import deque

from levelfield.engine._call import carry_out
from levelfield.engine._runner import Finished, Report, Task


class ThisProcess:
    """Carries out a task when it is waited for; an error reaches the caller with its whole traceback.

    Example:
        >>> runner = ThisProcess()
        >>> runner.submit(Task(7, abs, -1))
        >>> [event.result for event in runner.wait()]
        [1]
    """

    slots = 1

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Runner`."""
        self._tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        """See :class:`levelfield.engine.Runner`; how far a task is cannot be told before it is finished."""
        task = self._tasks.popleft()
        return [carry_out(task.number, task.function, task.job)]
