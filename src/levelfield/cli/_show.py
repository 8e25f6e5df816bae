"""What the terminal shows of an experiment: progress while it runs, the table when it is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.cli._progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from levelfield.compare import Evidence
    from levelfield.config import Experiment
    from levelfield.reports import Table


def carry_out(experiment: Experiment, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    """Run an experiment, write its report, show its table; only then wait for trackers that are slow."""
    from levelfield import app
    from levelfield.engine import is_chief

    root = app.folder_of(experiment, out)
    with app.watched(experiment, root):
        with progress(quiet=quiet or not is_chief(), as_json=as_json) as shown:
            app.unwatched(experiment, root, progress=shown)
        if is_chief():
            _show(root, quiet=quiet, as_json=as_json)


def _show(root: Path, *, quiet: bool, as_json: bool) -> None:
    from levelfield.compare import weigh
    from levelfield.records import Store
    from levelfield.reports import results_json

    evidence = weigh(root)
    page = Store(root).report_folder / "index.html"
    if as_json:
        print(json.dumps(results_json(evidence.comparison), indent=2))
        return
    show_table(evidence)
    if not quiet:
        print(f"Report: {page}")
        print(f"Tables: {page.parent / 'results.csv'}, results.md and results.tex", flush=True)


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
