"""``levelfield data prepare``: decode and resize a dataset's images once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from levelfield.errors import RunError, UsageError


class Choice(StrEnum):
    """What to do about images that cannot be read."""

    refuse = "refuse"
    skip = "skip"


def prepare(
    name: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
    *,
    root: Annotated[
        str | None, typer.Option(help="Folder of the dataset, if it takes one.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Another option of the dataset, as key=value.")
    ] = None,
    resize: Annotated[
        str, typer.Option(help="What the shorter sides are brought to; none keeps the original size.")
    ] = "256",
    unreadable: Annotated[
        Choice, typer.Option(help="Refuse to finish, or skip images that cannot be read.")
    ] = Choice.refuse,
    workers: Annotated[
        int | None, typer.Option(min=1, help="How many processes decode; one per core by default.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every image's checksum at the end.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Decode and resize every image once; give the same command again to go on after an interruption."""
    from levelfield import data
    from levelfield.cli.data import parse_options as dataset_options
    from levelfield.data import store

    side = _side(resize)
    dataset = data.load(
        name, **dataset_options(option or []), **({} if root is None else {"root": str(root)})
    )
    try:
        with _bar(f"preparing {name}", quiet=quiet or as_json) as progress:
            path = store.prepare(
                dataset,
                resize=side,
                unreadable=unreadable.value,
                workers=workers or _cores(),
                progress=progress,
            )
    except store.UnreadableImagesError as error:
        for row, reason in error.unreadable:
            typer.echo(f"row {row}: {reason}", err=True)
        raise
    manifest = store.read_manifest(path)
    if verify and (damaged := store.PackedImages.open(path).damaged()):
        raise RunError(
            f"{len(damaged)} images of {path} do not have their checksums (first: number {damaged[0]}); "
            "delete it and prepare it again"
        )
    if as_json:
        facts = {
            "path": str(path),
            "images": manifest.rows - len(manifest.unreadable),
            "bytes": manifest.size,
            "unreadable": [{"row": row, "reason": reason} for row, reason in manifest.unreadable],
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    for row, reason in manifest.unreadable:
        typer.echo(f"skipped row {row}: {reason}", err=True)
    kept = manifest.rows - len(manifest.unreadable)
    typer.echo(f"{kept} images ({manifest.size / 1e9:.2f} GB) are prepared in {path}")


def _side(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise UsageError(f'--resize needs a number of pixels, or none, got "{text}"')
    return int(text)


def _cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@contextmanager
def _bar(description: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, with the time that is left."""
    if quiet:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
