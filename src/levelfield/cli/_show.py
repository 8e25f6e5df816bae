"""What the terminal shows of an experiment: progress while it runs, the table when it is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from levelfield.compare import Evidence
    from levelfield.config import Experiment
    from levelfield.reports import Table


class _Bars:
    """Progress bars, one per stage."""

    def __init__(self, progress: object) -> None:
        from rich.progress import Progress, TaskID

        assert isinstance(progress, Progress)
        self._progress = progress
        self._task: TaskID | None = None

    def stage(self, description: str, total: int) -> None:
        """See :class:`levelfield.protocol.Progress`."""
        self._task = self._progress.add_task(description, total=total)

    def advance(self) -> None:
        """See :class:`levelfield.protocol.Progress`."""
        if self._task is not None:
            self._progress.advance(self._task)


@contextmanager
def bars(*, quiet: bool) -> Iterator[_Bars | None]:
    """Progress on stderr, so that stdout stays for results; nothing if ``quiet``."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Bars(progress)


def carry_out(experiment: Experiment, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    """Run an experiment, write its report, show its table."""
    from levelfield import app
    from levelfield.compare import weigh
    from levelfield.engine import is_chief
    from levelfield.records import Store
    from levelfield.reports import results_json

    with bars(quiet=quiet or as_json or not is_chief()) as progress:
        root = app.run(experiment, out, progress=progress)
    if not is_chief():
        return
    evidence = weigh(root)
    page = Store(root).report_folder / "index.html"
    if as_json:
        print(json.dumps(results_json(evidence.comparison), indent=2))
        return
    show_table(evidence)
    if not quiet:
        print(f"Report: {page}")
        print(f"Tables: {page.parent / 'results.csv'}, results.md and results.tex")


def show_table(evidence: Evidence) -> None:
    """The main table; bold marks the methods of a column that no other was found better than."""
    from levelfield.reports import results_table, warnings

    comparison = evidence.comparison
    console = print_table(results_table(comparison, evidence.leaders))
    if comparison.leaky:
        console.print("[bold red]leaky: tuned with test feedback[/]")
    for warning in warnings(comparison):
        console.print(warning, style="yellow", highlight=False, markup=False)


def print_table(table: Table, *, width: int = 132) -> Console:
    """Print a table below its title, ``width`` wide where nobody looks at a terminal; returns the console."""
    from rich.console import Console

    console = Console(width=None if Console().is_terminal else width)
    if table.title:
        console.print(table.title, style="bold", markup=False, highlight=False)
    console.print(table.rich())
    return console
