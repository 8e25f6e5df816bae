"""``levelfield verify``: whether the records of an experiment fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(
    folder: Annotated[
        Path, typer.Argument(help="The folder that `levelfield run` wrote.", show_default=False)
    ],
) -> None:
    """Check ledger, selections, trials, scores and tables against each other; exit code 1 on any finding."""
    from levelfield.reports import verify_folder

    findings = verify_folder(folder)
    for finding in findings:
        print(finding)
    if findings:
        raise typer.Exit(1)
    print(f"{folder}: the records fit together")
