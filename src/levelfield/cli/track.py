"""``levelfield track``: send records to a tracker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def track(
    directory: Annotated[Path, typer.Argument(help="Experiment directory.", show_default=False)],
    to: Annotated[
        list[str], typer.Option("--to", help="Tracker: tensorboard, mlflow, wandb or a plug-in (repeatable).")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Option of the tracker, such as uri=http://... (repeatable)."),
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Plug-in file that registers a tracker (repeatable).")
    ] = None,
) -> None:
    """Send missing records to a tracker, after a run without it or when it was down."""
    from levelfield.config import TrackSpec
    from levelfield.core.errors import UsageError
    from levelfield.track import journal_file, send_records, viewer_command

    options = dict(text.partition("=")[::2] for text in option or ())
    if options and len(to) > 1:
        raise UsageError("--option applies to one tracker; give one --to at a time")
    for name in to:
        spec = TrackSpec.model_validate({"name": name, **options})
        sent = send_records(directory, spec, plugins=plugin or ())
        nothing_new = (
            f"all records were sent already; delete {journal_file(directory, spec)} to send them again"
        )
        print(f"{name}: {sent} records sent" if sent else f"{name}: {nothing_new}")
        if command := viewer_command(directory, spec):
            print(f"View with: {command}")
