"""What the terminal shows of an experiment: progress while it runs, the table when it is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelfield.config import Experiment
    from levelfield.reports import Evidence


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
    from levelfield.engine import is_chief
    from levelfield.records import Store
    from levelfield.reports import results_json, weigh

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
    """The main table; bold marks the best of a column and what is not distinguishable from it."""
    from rich.console import Console
    from rich.table import Table

    from levelfield.reports._page import warnings
    from levelfield.reports._tables import columns, metric_name, table_rows

    comparison = evidence.comparison
    wanted = columns(comparison)
    table = Table(title=f"{comparison.experiment['name']}: test scores in percent, mean ± 95% interval")
    table.add_column("method")
    for setting, metric in wanted:
        table.add_column(f"{setting}\n{metric_name(metric)}", justify="right")
    for row in table_rows(comparison, evidence.leaders):
        cells = [
            f"[bold]{cell}[/]" if bold else cell for cell, bold in zip(row.cells, row.alike, strict=True)
        ]
        table.add_row(row.method, *cells)
    console = Console(width=None if Console().is_terminal else 120)
    console.print(table)
    if comparison.leaky:
        console.print("[bold red]leaky: tuned with test feedback[/]")
    for warning in warnings(comparison):
        console.print(f"[yellow]{warning}[/]", highlight=False)
