"""``levelfield reproduce``: carry out a finished experiment again and compare number by number."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.run import QuietOption

if TYPE_CHECKING:
    from levelfield.protocol import Reproduction


def reproduce(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished experiment.", show_default=False)],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Fresh folder; FOLDER-reproduced by default.", show_default=False)
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method (repeatable).", show_default=False)
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Where the dataset lies here.", show_default=False)
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A plug-in file that the experiment used (repeatable).")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0 = in this process.")] = 1,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, ...; as recorded by default.", show_default=False)
    ] = None,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Say for each number: identical, within its interval, or different; exit code 1 if any is different."""
    from levelfield.cli._progress import progress
    from levelfield.protocol import reproduce as carry_out

    with progress(quiet=quiet, as_json=as_json) as shown:
        found = carry_out(
            folder,
            out,
            methods=tuple(method or ()),
            root=root,
            plugins=tuple(plugin or ()),
            workers=workers,
            device=device,
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

    from levelfield.compare import measure

    table = Table(title="Test scores in percent")
    for column in ("method", "setting", "metric"):
        table.add_column(column)
    for column in ("before", "now", "verdict"):
        table.add_column(column, justify="right")
    colours = {"identical": "green", "consistent": "yellow", "different": "bold red", "missing": "bold red"}
    for n in found.numbers:
        half = "" if n.half_width != n.half_width else f" ± {100 * n.half_width:.2f}"
        table.add_row(
            n.method,
            n.setting,
            measure(n.metric).label,
            f"{100 * n.before:.2f}{half}",
            f"{100 * n.after:.2f}",
            f"[{colours[n.verdict]}]{n.verdict}[/]",
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
