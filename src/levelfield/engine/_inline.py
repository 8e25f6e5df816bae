"""Engine that executes tasks in this process, one after the other."""

from __future__ import annotations

from collections import deque

from levelfield.engine._engine import ProgressReport, Task, TaskResult
from levelfield.engine._execute import execute_task


class InlineEngine:
    """Executes each task in :meth:`wait`; errors keep their full traceback.

    Example:
        >>> engine = InlineEngine()
        >>> engine.submit(Task(7, abs, -1))
        >>> [event.result for event in engine.wait()]
        [1]
    """

    slots = 1

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Engine`."""
        self._tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        """See :class:`levelfield.engine.Engine`; returns no progress reports."""
        task = self._tasks.popleft()
        return [execute_task(task.number, task.function, task.job)]
