"""Who is to blame when processes die: the task that they worked on, or the machines."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.engine._runner import Finished, LostTaskError, Task
from levelfield.errors import RunError

TRIES = 3  # of a task whose process dies
MANY_LOST = 8  # in a row


@dataclass(frozen=True)
class Lost:
    """A task whose process died each time: how often and where, and how in the end."""

    task: Task
    story: str
    last: str


class Verdicts:
    """Holds back what is said of lost tasks until others have been tried.

    Example:
        >>> verdicts = Verdicts()
        >>> verdicts.works(Task(1, abs, 1))
        >>> verdicts.lose(Lost(Task(2, abs, 2), "its process died 3 times", "killed"))
        >>> [str(each.error) for each in verdicts.spoken(idle=True)]
        ['its process died 3 times: killed']
    """

    def __init__(self) -> None:
        self._worked: set[str] = set()  # kinds of which a task has been completed since the last loss
        self._ever_worked: set[str] = set()
        self._lost: list[Lost] = []

    def __len__(self) -> int:
        """How many tasks wait for what is said of them."""
        return len(self._lost)

    def works(self, task: Task) -> None:
        """A task came to an end."""
        self._worked.add(task.kind)
        self._ever_worked.add(task.kind)

    def lose(self, lost: Lost) -> None:
        """A task did not, however often it was tried."""
        self._lost.append(lost)
        self._worked.discard(lost.task.kind)

    def spoken(self, *, idle: bool) -> list[Finished]:
        """The tasks that are lost for certain; ``idle`` if there is nothing more to try.

        If others of their kind work since, or have worked and there is nothing more to try, the fault is
        theirs. If many are lost in a row, or nothing has ever worked, it is the machines': then none is
        blamed, and the experiment stops.
        """
        if not self._lost:
            return []
        working = any(lost.task.kind in self._worked for lost in self._lost)
        if not working and not idle and len(self._lost) < MANY_LOST:
            return []  # the next ones will tell
        ever = any(lost.task.kind in self._ever_worked for lost in self._lost)
        if len(self._lost) >= MANY_LOST or not (working or ever):
            raise RunError(
                f"worker processes die ({self._lost[-1].last}); mend it and give the same command again, "
                "with fewer runs at once if memory is short (--set engine.workers=1; with Ray, more "
                "engine.cpus)"
            )
        judged, self._lost = self._lost, []
        return [
            Finished(lost.task.number, error=LostTaskError(f"{lost.story}: {lost.last}")) for lost in judged
        ]
