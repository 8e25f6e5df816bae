"""``levelfield data prepare``: decode and resize a dataset's images once."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from typing import Annotated

import typer

from levelfield.cli._progress import task_progress
from levelfield.core.errors import RunError, UsageError


class UnreadablePolicy(StrEnum):
    """Policy for images that cannot be read."""

    refuse = "refuse"
    skip = "skip"


def prepare(
    name: Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)],
    *,
    root: Annotated[
        str | None, typer.Option(help="Directory of the dataset, if it needs one.", show_default=False)
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the dataset, as key=value (repeatable).")
    ] = None,
    resize: Annotated[
        str, typer.Option(help="Length of the shorter side in pixels; none keeps the original size.")
    ] = "256",
    unreadable: Annotated[
        UnreadablePolicy, typer.Option(help="Unreadable images: refuse to finish, or skip them.")
    ] = UnreadablePolicy.refuse,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of worker processes. Defaults to one per core.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the checksum of every image at the end.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Hide progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Decode and resize every image once. The same command continues a stopped run."""
    from levelfield import data
    from levelfield.cli.data import parse_options as dataset_options
    from levelfield.data import store

    side = _parse_resize(resize)
    dataset = data.load(
        name, **dataset_options(option or []), **({} if root is None else {"root": str(root)})
    )
    try:
        with task_progress(quiet=quiet or as_json) as progress:
            path = store.prepare(
                dataset,
                resize=side,
                unreadable=unreadable.value,
                workers=workers or _available_cores(),
                progress=progress.callback(f"preparing {name}"),
            )
    except store.UnreadableImagesError as error:
        for row, reason in error.unreadable:
            typer.echo(f"row {row}: {reason}", err=True)
        raise
    manifest = store.read_manifest(path)
    if verify and (damaged := store.PackedImages.open(path).find_damaged()):
        raise RunError(
            f"{len(damaged)} images of {path} have wrong checksums (first: number {damaged[0]}); "
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


def _parse_resize(text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise UsageError(f'--resize is "{text}"; give a number of pixels, or none')
    return int(text)


def _available_cores() -> int:
    """Return the number of cores available to this process; in a container, fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
