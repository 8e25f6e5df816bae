"""``levelfield doctor``: what this machine can do, and what to install for what."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

MARKS = {"good": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[bold red]✗[/]"}


def doctor(
    root: Annotated[
        list[Path] | None, typer.Option("--root", help="Look here for the benchmarks, too (repeatable).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Look at versions, processor, memory, folders, data and extras; say what to do about each."""
    from levelfield.doctor import examine

    findings = examine(roots=(Path("data"), *(root or ())))
    if as_json:
        found = list(findings)
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        from rich.console import Console
        from rich.markup import escape

        console, found = Console(soft_wrap=True), []
        for finding in findings:
            found.append(finding)
            line = f"{MARKS[finding.verdict]} {finding.what}: {escape(finding.found)}"
            console.print(line + (f" → {escape(finding.remedy)}" if finding.remedy else ""), highlight=False)
    if any(finding.verdict == "bad" for finding in found):
        raise typer.Exit(1)
