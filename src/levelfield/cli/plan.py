"""``levelfield plan``: estimate of an experiment's cost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.run import FileArgument, OutOption, SetOption

if TYPE_CHECKING:
    from levelfield.protocol import Plan


def plan(
    file: FileArgument,
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate the runs, time and disk space that an experiment needs; trains nothing."""
    import dataclasses

    from levelfield import api
    from levelfield.config import Experiment

    experiment = Experiment.load(file, tuple(overrides or ()))
    found = api.plan(experiment, out)
    if as_json:
        totals = {"runs_done": found.runs_done, "runs_todo": found.runs_todo}
        print(json.dumps(dataclasses.asdict(found) | totals, indent=2))
        return
    _show(experiment.name, found)


def _show(name: str, plan: Plan) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name}: runs")
    table.add_column("method")
    for column in ("trials", "search: done", "to do", "confirm: done", "to do", "time"):
        table.add_column(column, justify="right")
    for m in plan.methods:
        counts = (m.search_done, m.search_todo, m.confirm_done, m.confirm_todo)
        duration = _format_range(m.seconds.low, m.seconds.high)
        table.add_row(m.method, f"{m.trials_done} of {m.trials}", *map(str, counts), duration)
    console = Console(width=None if Console().is_terminal else 120)
    console.print(table)
    print(f"Data: {plan.data}")
    print(f"Runs: {plan.runs_todo} to do, {plan.runs_done} done; {plan.scorings_todo} reruns to score")
    workers = f"{plan.workers} worker{'s' if plan.workers > 1 else ''}" if plan.workers else "one process"
    print(f"Time: {_format_range(plan.seconds.low, plan.seconds.high)} with {workers}")
    print(f"One run: {_format_range(plan.run_seconds.low, plan.run_seconds.high)} ({plan.basis})")
    if plan.trial_seconds != plan.run_seconds:
        shorter = _format_range(plan.trial_seconds.low, plan.trial_seconds.high)
        print(f"One run of a trial: {shorter} (search.max_epochs)")
    if plan.features:
        print(f"Trunk features, unless cached: {_format_time(plan.features)} of this time")
    sizes = (plan.disk, plan.disk_peak, plan.free)
    end, peak, free = (_format_size(size) for size in sizes)
    print(f"Disk: {end} at the end, {peak} at its peak; {free} free")
    if plan.disk_peak > plan.free:
        print("Warning: the disk has too little space")
    for note in (*plan.notes, *_unequal_budgets({m.method: m.trials for m in plan.methods})):
        print(f"Note: {note}")


def _unequal_budgets(trials: dict[str, int]) -> list[str]:
    """Return a note if some methods have fewer trials than others.

    Example:
        >>> _unequal_budgets({"contrastive": 50, "pml:TripletMarginLoss": 1})
        ['unequal budgets: pml:TripletMarginLoss has 1 trial, others have 50; give it a `space:` to search.']
    """
    most = max(trials.values(), default=0)
    fewer = {method: count for method, count in trials.items() if count < most}
    if not fewer:
        return []
    listed = ", ".join(f"{method} has {count} trial{'s'[: count != 1]}" for method, count in fewer.items())
    them = "it" if len(fewer) == 1 else "them"
    return [f"unequal budgets: {listed}, others have {most}; give {them} a `space:` to search."]


def _format_range(low: float, high: float) -> str:
    shown = (_format_time(low), _format_time(high))
    return shown[0] if shown[0] == shown[1] else f"{shown[0]} to {shown[1]}"


def _format_time(seconds: float) -> str:
    """Format a duration.

    Example:
        >>> _format_time(0), _format_time(42), _format_time(3725), _format_time(200000)
        ('0 s', '42 s', '1 h 2 min', '2 d 7 h')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 2:
        return f"{seconds:.0f} s"
    if hours < 1:
        return f"{minutes:.0f} min"
    if days < 1:
        return f"{int(hours)} h {int(minutes % 60)} min"
    return f"{int(days)} d {int(hours % 24)} h"


def _format_size(number: float) -> str:
    """Format a number of bytes.

    Example:
        >>> _format_size(512), _format_size(2_500_000)
        ('512 bytes', '2.5 MB')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return f"{number:.0f} bytes"
