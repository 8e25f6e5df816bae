"""``levelfield sweep``: vary one setting at a time."""

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
            help="Setting and values, such as --over batch.size=32,64,112 (repeatable).", show_default=False
        ),
    ],
    overrides: SetOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Output directory. Defaults to runs/NAME-sweep.", show_default=False
        ),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Run the experiment once for each value of a setting, and compare the scores."""
    from levelfield.cli._progress import experiment_progress
    from levelfield.config import Experiment
    from levelfield.protocol import parse_factor, run_sweep, sweep_points
    from levelfield.records import default_directory
    from levelfield.reports.sweeps import write_sweep

    experiment = Experiment.load(file, tuple(overrides or ()))
    directory = out or default_directory(f"{experiment.name}-sweep")
    points = sweep_points(experiment, [parse_factor(text) for text in over], directory)
    with experiment_progress(quiet=quiet) as shown:
        run_sweep(points, progress=shown)
    files = write_sweep(points, directory)
    print(files[0].read_text(encoding="utf-8"))
    print("Written: " + ", ".join(str(file) for file in files))
