"""Terminal output of an experiment: progress while it runs, then table and verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.cli._progress import experiment_progress

if TYPE_CHECKING:
    from rich.console import Console

    from levelfield.analysis import Analysis
    from levelfield.config import Experiment
    from levelfield.reports import Table


def run_and_show(
    experiment: Experiment,
    out: Path | None,
    *,
    quiet: bool,
    as_json: bool,
    plan: Path | None = None,
    depart: str | None = None,
    reuse: Sequence[Path] = (),
) -> None:
    """Run an experiment, write its report and show table and verdict; then wait for slow trackers."""
    from levelfield import api
    from levelfield.engine import is_rank_zero

    root = api.experiment_directory(experiment, out)
    with api.with_trackers(experiment, root):
        with experiment_progress(quiet=quiet or not is_rank_zero(), as_json=as_json) as shown:
            api.run_without_trackers(experiment, root, progress=shown, plan=plan, depart=depart, reuse=reuse)
        if is_rank_zero():
            _show(root, quiet=quiet, as_json=as_json)


def _show(root: Path, *, quiet: bool, as_json: bool) -> None:
    from levelfield.analysis import analyze
    from levelfield.records import Store
    from levelfield.reports import results_json

    analysis = analyze(root)
    page = Store(root).report_directory / "index.html"
    if as_json:
        print(json.dumps(results_json(analysis), indent=2))
        return
    show_analysis(analysis, lines=[] if quiet else [f"Report: {page}"])


def show_analysis(analysis: Analysis, *, lines: Sequence[str] = (), file_order: bool = False) -> None:
    """Print the main table, notes, ``lines``, and last the verdict."""
    from levelfield.analysis import conclude_experiment
    from levelfield.reports import result_warnings, terminal_table

    comparison = analysis.comparison
    table = terminal_table(analysis, file_order=file_order)
    console = print_table(table)
    for note in table.notes:
        console.print(note, style="dim", highlight=False, markup=False)
    for warning in result_warnings(comparison):
        console.print(f"Note: {warning}", style="yellow", highlight=False, markup=False)
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if comparison.leaky:
        console.print("Leaky: tuned with test feedback. The scores are not valid.", style="bold red")
    console.print()
    console.print(conclude_experiment(analysis).text, style="bold", highlight=False, markup=False)


def print_table(table: Table, *, width: int = 80) -> Console:
    """Print a table with its title and return the console; ``width`` applies if stdout is not a terminal."""
    from rich.console import Console

    console = Console(width=None if Console().is_terminal else max(width, _needed_width(table)))
    if table.title:
        console.print(table.title, style="bold", markup=False, highlight=False)
    console.print(table.rich())
    return console


def _needed_width(table: Table) -> int:
    """Return the width at which no cell is folded; a file or pipe has no right edge."""
    from rich.console import Console
    from rich.measure import Measurement

    wide = Console(width=500)
    return Measurement.get(wide, wide.options, table.rich()).maximum
