"""``levelfield doctor``: check of versions, hardware, data and extras."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

MARKS = {"good": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[bold red]✗[/]"}


def doctor(
    root: Annotated[
        list[Path] | None,
        typer.Option("--root", help="Additional directory of benchmark datasets (repeatable)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Check the GPU instead, and write a report to attach to an issue.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Report of --gpu.")] = Path("gpu-report.json"),
) -> None:
    """Check versions, processor, memory, cache, datasets and extras; exit code 1 on any problem."""
    from levelfield.api.doctor import run_checks
    from levelfield.api.gpu import run_gpu_checks

    checks = run_gpu_checks(out) if gpu else run_checks(roots=(Path("data"), *(root or ())))
    if as_json:
        found = list(checks)
        print(json.dumps([asdict(check) for check in found], indent=2))
    else:
        from rich.console import Console
        from rich.markup import escape

        console, found = Console(soft_wrap=True), []
        for check in checks:
            found.append(check)
            line = f"{MARKS[check.verdict]} {check.what}: {escape(check.found)}"
            console.print(line + (f" → {escape(check.remedy)}" if check.remedy else ""), highlight=False)
    if any(check.verdict == "bad" for check in found):
        raise typer.Exit(1)
