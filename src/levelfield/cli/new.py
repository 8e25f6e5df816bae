"""``levelfield new``: write a first experiment file, after at most three questions."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(help="Of the experiment, and of its file.", show_default=False)],
    photos: Annotated[
        Path | None, typer.Option(help="A folder with one folder of pictures per class.", show_default=False)
    ] = None,
    effort: Annotated[str | None, typer.Option(help="quick, normal or thorough.", show_default=False)] = None,
    track: Annotated[
        str | None, typer.Option(help="tensorboard, mlflow, wandb or none.", show_default=False)
    ] = None,
) -> None:
    """Write a commented experiment file; what is not given is asked where somebody can answer."""
    from levelfield.errors import UsageError, did_you_mean
    from levelfield.files import write_text
    from levelfield.starter import EFFORTS, TRACKERS, caution, check_effort, first_experiment, look_at

    name = name.removesuffix(".yaml")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(f'"{name}" is no name for an experiment; use letters, digits, dots and dashes')
    file = Path(f"{name}.yaml")
    if file.exists():
        raise UsageError(f"{file} exists already; choose another name, or edit that file")
    asks = sys.stdin.isatty()
    if photos is None and asks:
        answer = typer.prompt("Folder of photos, one folder per class (empty: built-in glyphs)", default="")
        photos = Path(answer) if answer else None
    found = look_at(photos) if photos is not None else None
    if effort is None:
        effort = typer.prompt(f"Effort ({', '.join(EFFORTS)})", default="quick") if asks else "quick"
    check_effort(effort)
    if track is None:
        track = typer.prompt(f"Show it in ({', '.join(TRACKERS)}, none)", default="none") if asks else "none"
    if track != "none" and track not in TRACKERS:
        raise UsageError(f'no tracker is called "{track}"{did_you_mean(track, (*TRACKERS, "none"))}')
    write_text(file, first_experiment(name, found, effort=effort, track=() if track == "none" else (track,)))
    if found is not None and (remark := caution(found)):
        print(f"Note: {remark}.")
    print(f"Wrote {file}. Next:")
    print(f"  levelfield plan {file}    # how much work it is")
    print(f"  levelfield run {file}")
