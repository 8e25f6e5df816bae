"""``levelfield report``: write an experiment's report again from its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[
        Path, typer.Argument(help="The folder that `levelfield run` wrote.", show_default=False)
    ],
) -> None:
    """Write the report of a finished or unfinished experiment and show its table."""
    from levelfield.cli._show import show_table
    from levelfield.reports import write_report

    page = write_report(folder)
    show_table(folder)
    print(f"Report: {page}")
