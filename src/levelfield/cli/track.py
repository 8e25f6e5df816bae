"""``levelfield track``: show finished or unfinished records in a tracker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def track(
    folder: Annotated[
        Path, typer.Argument(help="The folder that `levelfield run` wrote.", show_default=False)
    ],
    to: Annotated[
        list[str], typer.Option("--to", help="tensorboard, mlflow, wandb or one of yours (repeatable).")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="An option of the tracker: uri=http://... (repeatable)."),
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A file of yours that registers a tracker (repeatable).")
    ] = None,
) -> None:
    """Tell a tracker what it does not know yet: after a run without one, or when it was down."""
    from levelfield.config import TrackSpec
    from levelfield.errors import UsageError
    from levelfield.track import how_to_look, journal_file, send_records

    options = dict(text.partition("=")[::2] for text in option or ())
    if options and len(to) > 1:
        raise UsageError("--option belongs to one tracker; give one --to at a time")
    for name in to:
        spec = TrackSpec.model_validate({"name": name, **options})
        told = send_records(folder, spec, plugins=plugin or ())
        known = f"knows everything already; without {journal_file(folder, spec)} it is told again"
        print(f"{name}: {told} entries sent" if told else f"{name}: {known}")
        if look := how_to_look(folder, spec):
            print(f"Look at it: {look}")
