"""``levelfield reproduce``: repeat a finished experiment and compare all numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli._trust import TrustOption
from levelfield.cli.run import QuietOption

if TYPE_CHECKING:
    from levelfield.protocol import Reproduction


def reproduce(
    directory: Annotated[Path, typer.Argument(help="Experiment directory.", show_default=False)],
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="New directory. Defaults to DIRECTORY-reproduced.", show_default=False
        ),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method (repeatable).", show_default=False)
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Local directory of the dataset.", show_default=False)
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Plug-in file that the experiment used (repeatable).")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=0, help="Number of worker processes; 0 runs in this process.")
    ] = 1,
    device: Annotated[
        str | None,
        typer.Option(help="Device: cpu, cuda, ... Defaults to the recorded device.", show_default=False),
    ] = None,
    trust: TrustOption = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Repeat an experiment and compare each number; exit code 1 if any is different or missing."""
    from levelfield.cli._progress import experiment_progress
    from levelfield.protocol import reproduce as reproduce_experiment

    with experiment_progress(quiet=quiet, as_json=as_json) as shown:
        found = reproduce_experiment(
            directory,
            out,
            methods=tuple(method or ()),
            root=root,
            plugins=tuple(plugin or ()),
            workers=workers,
            device=device,
            trust=trust,
            progress=shown,
        )
    if as_json:
        print(json.dumps(dataclasses.asdict(found), indent=2, default=str))
    else:
        _show(found)
    if found.count("different") or found.count("missing"):
        raise typer.Exit(1)


def _show(found: Reproduction) -> None:
    from rich.console import Console
    from rich.table import Table

    from levelfield.analysis import metric_info

    table = Table(title="Test scores in percent")
    for column in ("method", "setting", "metric"):
        table.add_column(column)
    for column in ("before", "now", "verdict"):
        table.add_column(column, justify="right")
    colors = {"identical": "green", "consistent": "yellow", "different": "bold red", "missing": "bold red"}
    for n in found.numbers:
        half = "" if n.half_width != n.half_width else f" ± {100 * n.half_width:.2f}"
        table.add_row(
            n.method,
            n.setting,
            metric_info(n.metric).label,
            f"{100 * n.before:.2f}{half}",
            f"{100 * n.after:.2f}",
            f"[{colors[n.verdict]}]{n.verdict}[/]",
        )
    Console(width=None if Console().is_terminal else 120).print(table)
    print(
        f"{found.count('identical')} identical, {found.count('consistent')} consistent, "
        f"{found.count('different')} different, {found.count('missing')} missing"
    )
    for title, lines in (("Other selections", found.selections), ("Changed", found.environment)):
        print(f"{title}: {'none' if not lines else ''}".rstrip())
        for line in lines:
            print(f"  {line}")
    print(f"Records: {found.folder}")
