"""``levelfield run``: carry out an experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from levelfield.config import Experiment

FileArgument = Annotated[Path, typer.Argument(help="The experiment file (YAML).", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Override a value: --set search.trials=10 (repeatable).")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Folder of records; runs/NAME by default.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
TrackOption = Annotated[
    list[str] | None,
    typer.Option("--track", help="Show it in tensorboard, mlflow or wandb as well (repeatable)."),
]
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
    track: TrackOption = None,
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
    if track:
        experiment = experiment.tracked_by(*track)
    if experiment.track and not quiet and not as_json:
        _say_where(experiment, out)
    if not search_only:
        carry_out(experiment, out, quiet=quiet, as_json=as_json)
        return
    from levelfield import app

    with progress(quiet=quiet, as_json=as_json) as shown:
        root = app.run(experiment, out, progress=shown, search_only=True)
    print(f"Every search is finished; records: {root}")


def _say_where(experiment: Experiment, out: Path | None) -> None:
    """Say how to look at what the trackers keep beside the records."""
    from levelfield.registry import load_plugin_file
    from levelfield.track import check, how_to_look

    for plugin in experiment.plugins:
        load_plugin_file(plugin)
    for spec in experiment.track:
        check(spec)
        if look := how_to_look(out or Path("runs") / experiment.name, spec):
            typer.echo(f"Watch it: {look}", err=True)
