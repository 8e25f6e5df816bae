"""Classify worker deaths: task or machine."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.core.errors import RunError
from levelfield.engine._engine import LostTaskError, Task, TaskResult

MAX_ATTEMPTS = 3  # of a task whose process dies
MAX_LOST_IN_A_ROW = 8


@dataclass(frozen=True)
class LostTask:
    """Task whose process died at every attempt.

    Attributes:
        task: The task.
        summary: How often its process died, and where.
        last_death: How it died the last time.
    """

    task: Task
    summary: str
    last_death: str


class LostTasks:
    """Lost tasks that wait until other tasks show whether the task or the machine is at fault.

    Example:
        >>> lost_tasks = LostTasks()
        >>> lost_tasks.add_completed(Task(1, abs, 1))
        >>> lost_tasks.add(LostTask(Task(2, abs, 2), "its process died 3 times", "killed"))
        >>> [str(each.error) for each in lost_tasks.resolve_lost_tasks(idle=True)]
        ['its process died 3 times: killed']
    """

    def __init__(self) -> None:
        self._completed: set[str] = set()  # kinds with a task completed since the last loss
        self._ever_completed: set[str] = set()
        self._lost: list[LostTask] = []

    def __len__(self) -> int:
        """Return the number of lost tasks that are not resolved."""
        return len(self._lost)

    def add_completed(self, task: Task) -> None:
        """Note that a task was completed."""
        self._completed.add(task.kind)
        self._ever_completed.add(task.kind)

    def add(self, lost: LostTask) -> None:
        """Note that a task was lost."""
        self._lost.append(lost)
        self._completed.discard(lost.task.kind)

    def resolve_lost_tasks(self, *, idle: bool) -> list[TaskResult]:
        """Return the results of tasks that are certainly lost; ``idle`` means that no task is left to try.

        The task is at fault if another task of its kind was completed since. It is also at fault if one was
        completed before and no task is left to try. The machine is at fault if many tasks are lost in a row
        or no task of the kind was ever completed.

        Raises:
            RunError: The machine is at fault.
        """
        if not self._lost:
            return []
        completed = any(lost.task.kind in self._completed for lost in self._lost)
        if not completed and not idle and len(self._lost) < MAX_LOST_IN_A_ROW:
            return []  # the next tasks will decide
        ever = any(lost.task.kind in self._ever_completed for lost in self._lost)
        if len(self._lost) >= MAX_LOST_IN_A_ROW or not (completed or ever):
            raise RunError(
                f"worker processes die ({self._lost[-1].last_death}); fix the cause and give the same "
                "command again, with fewer runs at once if memory is short (--set engine.workers=1; with "
                "Ray, more engine.cpus)"
            )
        resolved, self._lost = self._lost, []
        return [
            TaskResult(lost.task.number, error=LostTaskError(f"{lost.summary}: {lost.last_death}"))
            for lost in resolved
        ]
