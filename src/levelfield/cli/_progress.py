"""Progress displays of all verbs, on stderr; stdout is for results.

:func:`experiment_progress` shows the methods of an experiment, :func:`task_progress` other long tasks.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress, TaskID

    from levelfield.protocol import ProgressCallback, ProgressEvent, ProgressState

LINE_SECONDS = 30.0  # minimum time between lines with counts only
EVENT_SECONDS = 5.0  # minimum time between two JSON reports of a long job
STOPPING = "stopping after {} running jobs; press Ctrl-C again to stop now. Nothing is lost"


@contextmanager
def experiment_progress(*, quiet: bool = False, as_json: bool = False) -> Iterator[ProgressCallback | None]:
    """Show a live table on a terminal, lines otherwise, JSON lines if ``as_json``, nothing if ``quiet``."""
    if quiet:
        yield None
    elif as_json:
        yield JsonProgress()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield ProgressTable(live)
    else:
        yield ProgressLines()


@contextmanager
def task_progress(*, quiet: bool = False) -> Iterator[TaskProgress]:
    """Show a progress bar for each task; nothing if ``quiet``."""
    if quiet:
        yield TaskProgress(None)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as display:
        yield TaskProgress(display)


class TaskProgress:
    """Progress bars of tasks, created by :func:`task_progress`.

    Args:
        display: rich display; None shows nothing.
    """

    def __init__(self, display: Progress | None) -> None:
        self._display = display
        self._tasks: dict[str, TaskID] = {}

    def update(self, task: str, done: int, total: int) -> None:
        """Set the progress of a task; a total of 0 means unknown."""
        if self._display is not None:
            self._display.update(self._task_id(task), completed=done, total=total or None)

    def callback(self, task: str) -> Callable[[int, int], None]:
        """Return a callback ``(done, total)`` for one task."""
        return partial(self.update, task)

    def status(self, text: str) -> None:
        """Show a text in place of the earlier one, for work of unknown length."""
        if self._display is not None:
            self._display.update(self._task_id("status"), description=text)

    def _task_id(self, task: str) -> TaskID:
        assert self._display is not None
        if task not in self._tasks:
            self._tasks[task] = self._display.add_task(task, total=None)
        return self._tasks[task]


class ProgressTable:
    """Table of all methods, redrawn in place; failures are printed above it."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
        """See :class:`levelfield.protocol.ProgressCallback`."""
        if event.kind in ("lost", "stopping", "waiting"):
            self._live.console.print(
                event_text(progress_state, event), style="yellow", markup=False, highlight=False
            )
        self._live.update(self._table(progress_state))

    def _table(self, state: ProgressState) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(
            title=state.title or None, caption=summarize_progress(state), caption_justify="left", box=None
        )
        table.add_column("method", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("", width=24)
        for name in ("done", "running", "trials", "best"):
            table.add_column(name, justify="right", no_wrap=True)
        room = max(5, self._live.console.size.height - 6)
        rows = list(state.rows.values())
        shown = sorted(rows, key=lambda row: (row.stage == "done", -row.running))[:room]
        for row in (row for row in rows if row in shown):
            table.add_row(
                row.name,
                row.stage,
                ProgressBar(total=max(1, row.total), completed=row.done, width=24),
                f"{row.done}/{row.total}",
                str(row.running or ""),
                f"{row.trials}/{row.budget}" if row.budget else "",
                "" if row.best is None else f"{row.best:.4f}",
            )
        if len(rows) > room:
            table.add_row(f"and {len(rows) - room} more")
        for name, (done, total) in state.busy.items():
            table.add_row(
                name, "", ProgressBar(total=total or None, completed=done, width=24), f"{done}/{total}"
            )
        return table


class ProgressLines:
    """One line for each trial, selection and opening of the test set; overall progress every 30 seconds."""

    def __init__(self) -> None:
        self._last = 0.0

    def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
        """See :class:`levelfield.protocol.ProgressCallback`."""
        line = event_text(progress_state, event)
        if event.kind in ("known", "started", "finished", "report"):
            if time.monotonic() - self._last < LINE_SECONDS:
                return
            line = line if event.kind == "report" else ""
        self._last = time.monotonic()
        title = f"{progress_state.title}: " if progress_state.title else ""
        text = "; ".join(filter(None, [line, summarize_progress(progress_state)]))
        print(f"[{format_seconds(progress_state.elapsed)}] {title}{text}", file=sys.stderr)
        sys.stderr.flush()


class JsonProgress:
    """One JSON object per line: the event and the overall progress."""

    def __init__(self) -> None:
        self._reported = 0.0

    def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
        """See :class:`levelfield.protocol.ProgressCallback`."""
        if event.kind == "report":
            if time.monotonic() - self._reported < EVENT_SECONDS:
                return
            self._reported = time.monotonic()
        values: dict[str, Any] = {"event": event.kind, "row": event.row, "stage": event.stage}
        values |= {"text": event.text, "score": event.score, "done": event.done, "total": event.total}
        values = {name: value for name, value in values.items() if value not in ("", None, 0)}
        left = progress_state.seconds_left
        values["all"] = {
            "done": progress_state.done,
            "total": progress_state.total,
            "running": progress_state.running,
            "seconds": round(progress_state.elapsed, 1),
            "seconds_left": None if left is None else round(left, 1),
        }
        title = {"experiment": progress_state.title} if progress_state.title else {}
        print(json.dumps(title | values), file=sys.stderr)
        sys.stderr.flush()


def event_text(state: ProgressState, event: ProgressEvent) -> str:
    """Return an event as text; empty for events that only change a count."""
    row = state.rows.get(event.row)
    if event.kind == "trial" and row is not None:
        score = "failed" if event.score is None else f"{event.score:.4f}"
        why = f" ({event.text})" if event.text else ""
        best = "" if row.best is None else f", best {row.best:.4f}"
        return f"{event.row}: trial {event.done} of {row.budget}: {score}{why}{best}"
    if event.kind == "stopping":
        return STOPPING.format(event.text)
    if event.kind == "waiting":
        return event.text
    words = {
        "selected": event.text or f"selection frozen, validation score {event.score or 0.0:.4f}",
        "opened": "test set opened",
        "ended": "done",
        "lost": f"a run failed: {event.text}",
        "report": f"{'' if event.stage == 'features' else 'a run is in epoch '}{event.done} of {event.total}",
    }
    return f"{event.row}: {words[event.kind]}" if event.kind in words else ""


def summarize_progress(state: ProgressState) -> str:
    """Return the overall progress as text."""
    left = state.seconds_left
    rest = "" if left is None or state.done == state.total else f", about {format_seconds(left)} left"
    return f"{state.done} of {state.total} jobs done, {state.running} running{rest}"


def format_seconds(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds.

    Example:
        >>> format_seconds(75), format_seconds(3 * 3600 + 62)
        ('1:15', '3:01:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
