"""What a terminal, a log file or a script sees of an experiment while it runs.

All of it goes to standard error, so that standard output stays for results.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from levelfield.protocol import Board, Event, Progress

LINE_SECONDS = 30.0  # between lines that say no more than how far it is
EVENT_SECONDS = 5.0  # between two reports of a long job, for scripts
STOPPING = "stopping: what runs is finished first ({} under way); Ctrl-C again stops now. Nothing is lost"


@contextmanager
def progress(*, quiet: bool = False, as_json: bool = False) -> Iterator[Progress | None]:
    """A live table on a terminal, lines elsewhere, JSON for scripts; nothing if ``quiet``."""
    if quiet:
        yield None
    elif as_json:
        yield JsonEvents()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield LiveTable(live)
    else:
        yield Lines()


class LiveTable:
    """One table of all methods, redrawn in place; what cannot wait is printed above it."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def update(self, board: Board, event: Event) -> None:
        """See :class:`levelfield.protocol.Progress`."""
        if event.kind in ("lost", "stopping"):
            self._live.console.print(sentence(board, event), style="yellow", markup=False, highlight=False)
        self._live.update(self._table(board))

    def _table(self, board: Board) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(title=board.title or None, caption=summary(board), caption_justify="left", box=None)
        table.add_column("method", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("", width=24)
        for name in ("done", "running", "trials", "best"):
            table.add_column(name, justify="right", no_wrap=True)
        room = max(5, self._live.console.size.height - 6)
        rows = list(board.rows.values())
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
        for name, (done, total) in board.busy.items():
            table.add_row(
                name, "", ProgressBar(total=total or None, completed=done, width=24), f"{done}/{total}"
            )
        return table


class Lines:
    """One line for each trial, selection and opening, and now and then how far it is."""

    def __init__(self) -> None:
        self._last = 0.0

    def update(self, board: Board, event: Event) -> None:
        """See :class:`levelfield.protocol.Progress`."""
        line = sentence(board, event)
        if event.kind in ("known", "started", "finished", "report"):
            if time.monotonic() - self._last < LINE_SECONDS:
                return
            line = line if event.kind == "report" else ""
        self._last = time.monotonic()
        title = f"{board.title}: " if board.title else ""
        print(
            f"[{clock(board.elapsed)}] {title}{'; '.join(filter(None, [line, summary(board)]))}",
            file=sys.stderr,
        )
        sys.stderr.flush()


class JsonEvents:
    """One JSON object a line: what happened, and how far it all is."""

    def __init__(self) -> None:
        self._reported = 0.0

    def update(self, board: Board, event: Event) -> None:
        """See :class:`levelfield.protocol.Progress`."""
        if event.kind == "report":
            if time.monotonic() - self._reported < EVENT_SECONDS:
                return
            self._reported = time.monotonic()
        values: dict[str, Any] = {"event": event.kind, "row": event.row, "stage": event.stage}
        values |= {"text": event.text, "score": event.score, "done": event.done, "total": event.total}
        values = {name: value for name, value in values.items() if value not in ("", None, 0)}
        left = board.seconds_left
        values["all"] = {
            "done": board.done,
            "total": board.total,
            "running": board.running,
            "seconds": round(board.elapsed, 1),
            "seconds_left": None if left is None else round(left, 1),
        }
        print(
            json.dumps(values if not board.title else {"experiment": board.title, **values}), file=sys.stderr
        )
        sys.stderr.flush()


def sentence(board: Board, event: Event) -> str:
    """An event in words; nothing of those that only move a number."""
    row = board.rows.get(event.row)
    if event.kind == "trial" and row is not None:
        score = "failed" if event.score is None else f"{event.score:.4f}"
        why = f" ({event.text})" if event.text else ""
        best = "" if row.best is None else f", best {row.best:.4f}"
        return f"{event.row}: trial {event.done} of {row.budget}: {score}{why}{best}"
    if event.kind == "stopping":
        return STOPPING.format(event.text)
    words = {
        "selected": event.text or f"selection frozen, validation score {event.score or 0.0:.4f}",
        "opened": "test set opened",
        "ended": "done",
        "lost": f"a run failed: {event.text}",
        "report": f"{'' if event.stage == 'features' else 'a run is in epoch '}{event.done} of {event.total}",
    }
    return f"{event.row}: {words[event.kind]}" if event.kind in words else ""


def summary(board: Board) -> str:
    """How far everything is, in a few words."""
    left = board.seconds_left
    rest = "" if left is None or board.done == board.total else f", about {clock(left)} left"
    return f"{board.done} of {board.total} jobs done, {board.running} running{rest}"


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    Example:
        >>> clock(75), clock(3 * 3600 + 62)
        ('1:15', '3:01:02')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
