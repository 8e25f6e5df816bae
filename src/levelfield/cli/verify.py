"""``levelfield verify``: consistency check of an experiment's records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(
    directory: Annotated[Path, typer.Argument(help="Experiment directory.", show_default=False)],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Plan file, from `levelfield preregister`.")
    ] = None,
    anchor: Annotated[
        str | None, typer.Option("--anchor", help="Anchor file or digest, from `levelfield anchor`.")
    ] = None,
) -> None:
    """Check ledger, selections, trials, scores and tables for consistency; exit code 1 on any problem."""
    from levelfield import api

    findings = api.verify(directory, plan=plan, anchor=anchor)
    for finding in findings:
        print(finding)
    for note in api.verify_notes(directory, plan=plan, anchor=anchor):
        print(f"note: {note}")
    if findings:
        raise typer.Exit(1)
    checked = [name for name, given in (("the plan", plan), ("the anchor", anchor)) if given is not None]
    fit = f" and fit {' and '.join(checked)}" if checked else ""
    print(f"{directory}: the records are consistent{fit}")
