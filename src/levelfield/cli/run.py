"""``levelfield run``: run an experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from levelfield.config import Experiment

FileArgument = Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a value, such as --set search.trials=10 (repeatable)."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="Experiment directory. Defaults to runs/NAME.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]
TrackOption = Annotated[
    list[str] | None,
    typer.Option("--track", help="Additional tracker: tensorboard, mlflow or wandb (repeatable)."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print results as JSON on stdout and progress as JSON lines on stderr.")
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
            "--search-only", help="Stop before the test set is opened, to help with a shared search."
        ),
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Plan file; an experiment that departs from it is refused."),
    ] = None,
    depart: Annotated[
        str | None,
        typer.Option("--depart", help="Reason to depart from the plan; every report shows it."),
    ] = None,
    reuse: Annotated[
        list[Path] | None,
        typer.Option(
            "--reuse",
            help="Experiment directory or archive whose finished trials are copied instead of run again "
            "(repeatable).",
        ),
    ] = None,
) -> None:
    """Run an experiment: search, select, confirm, report. The same command continues a stopped run."""
    from levelfield.cli._progress import experiment_progress
    from levelfield.cli._show import run_and_show
    from levelfield.config import Experiment

    experiment = Experiment.load(file, tuple(overrides or ()))
    if track:
        experiment = experiment.with_trackers(*track)
    if experiment.track and not quiet and not as_json:
        _print_viewer_commands(experiment, out)
    if not search_only:
        run_and_show(
            experiment, out, quiet=quiet, as_json=as_json, plan=plan, depart=depart, reuse=reuse or ()
        )
        return

    from levelfield.api import run as run_experiment

    with experiment_progress(quiet=quiet, as_json=as_json) as shown:
        result = run_experiment(
            experiment,
            out,
            progress=shown,
            search_only=True,
            plan=plan,
            depart=depart,
            reuse=reuse or (),
        )
    print(f"All searches are finished; records: {result.path}")


def _print_viewer_commands(experiment: Experiment, out: Path | None) -> None:
    """Print the commands that show the trackers' local files."""
    from levelfield.core.registry import load_plugin_file
    from levelfield.records import default_directory
    from levelfield.track import check_tracker, viewer_command

    for plugin in experiment.plugins:
        load_plugin_file(plugin)
    for spec in experiment.track:
        check_tracker(spec)
        if command := viewer_command(out or default_directory(experiment.name), spec):
            typer.echo(f"View with: {command}", err=True)
