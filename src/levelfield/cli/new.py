"""``levelfield new``: write a commented experiment file."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(help="Name of the experiment and its file.", show_default=False)],
    photos: Annotated[
        Path | None, typer.Option(help="Image folder with one subfolder per class.", show_default=False)
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(help="Size of the comparison: quick, normal or thorough.", show_default=False),
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Tracker: tensorboard, mlflow, wandb or none.", show_default=False)
    ] = None,
) -> None:
    """Write a commented experiment file. Prompts for missing values when interactive."""
    from levelfield.api.starter import (
        EFFORTS,
        TRACKERS,
        check_runnable,
        experiment_template,
        few_classes_warning,
        get_effort,
        inspect_images,
    )
    from levelfield.cli._progress import task_progress
    from levelfield.core.errors import UsageError, did_you_mean
    from levelfield.core.files import write_text

    name = name.removesuffix(".yaml")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(f'"{name}" is not a valid experiment name; use letters, digits, dots and dashes')
    file = Path(f"{name}.yaml")
    if file.exists():
        raise UsageError(f"{file} exists; choose another name, or edit that file")
    interactive = sys.stdin.isatty()
    if photos is None and interactive:
        answer = typer.prompt("Image folder, one subfolder per class (empty: built-in glyphs)", default="")
        photos = Path(answer) if answer else None
    found = None
    if photos is not None:
        with task_progress() as progress:
            found = inspect_images(photos, progress=progress.callback("reading the images"))
    if effort is None:
        effort = typer.prompt(f"Effort ({', '.join(EFFORTS)})", default="quick") if interactive else "quick"
    get_effort(effort)
    if track is None:
        track = (
            typer.prompt(f"Tracker ({', '.join(TRACKERS)}, none)", default="none") if interactive else "none"
        )
    if track != "none" and track not in TRACKERS:
        raise UsageError(f'unknown tracker "{track}"{did_you_mean(track, (*TRACKERS, "none"))}')
    text = experiment_template(name, found, effort=effort, track=() if track == "none" else (track,))
    check_runnable(text)
    write_text(file, text)
    for note in found.notes if found is not None else ():
        print(f"Note: {note}.")
    if found is not None and (warning := few_classes_warning(found)):
        print(f"Note: {warning}.")
    print(f"Wrote {file}. Next:")
    print(f"  levelfield plan {file}    # estimates the cost")
    print(f"  levelfield run {file}")
