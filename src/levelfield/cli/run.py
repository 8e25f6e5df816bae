"""``levelfield run``: carry out an experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FileArgument = Annotated[Path, typer.Argument(help="The experiment file (YAML).", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Override a value: --set search.trials=10 (repeatable).")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Folder of records; runs/NAME by default.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Results as JSON on stdout, progress as JSON lines on stderr.")
]


def run(
    file: FileArgument,
    *,
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    search_only: Annotated[
        bool,
        typer.Option(
            "--search-only", help="Stop before the test set is opened: to help with a shared search."
        ),
    ] = False,
) -> None:
    """Search, select, confirm and report; give the same command again to go on after an interruption."""
    from levelfield.cli._progress import progress
    from levelfield.cli._show import carry_out
    from levelfield.config import Experiment

    experiment = Experiment.load(file, tuple(overrides or ()))
    if not search_only:
        carry_out(experiment, out, quiet=quiet, as_json=as_json)
        return
    from levelfield import app

    with progress(quiet=quiet, as_json=as_json) as shown:
        root = app.run(experiment, out, progress=shown, search_only=True)
    print(f"Every search is finished; records: {root}")
