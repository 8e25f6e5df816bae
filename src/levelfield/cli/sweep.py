"""``levelfield sweep``: vary one factor at a time, everything else fixed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.run import FileArgument, QuietOption, SetOption


def sweep(
    file: FileArgument,
    *,
    over: Annotated[
        list[str],
        typer.Option(
            help="What to vary, and its values: --over batch.size=32,64,112 (repeatable).", show_default=False
        ),
    ],
    overrides: SetOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of records; runs/NAME-sweep by default.", show_default=False)
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Run the experiment once per value; each metric is normalised by its maximum over the values."""
    from levelfield.cli._progress import progress
    from levelfield.config import Experiment
    from levelfield.protocol import parse_factor, run_sweep, sweep_points
    from levelfield.reports.sweeps import write_sweep

    experiment = Experiment.load(file, tuple(overrides or ()))
    folder = out or Path("runs") / f"{experiment.name}-sweep"
    points = sweep_points(experiment, [parse_factor(text) for text in over], folder)
    with progress(quiet=quiet) as shown:
        run_sweep(points, progress=shown)
    files = write_sweep(points, folder)
    print(files[0].read_text(encoding="utf-8"))
    print("Written: " + ", ".join(str(file) for file in files))
