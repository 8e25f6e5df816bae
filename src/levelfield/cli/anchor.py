"""``levelfield anchor``: digest of the ledger, to be kept where others can see it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def anchor(
    directory: Annotated[Path, typer.Argument(help="Experiment directory.", show_default=False)],
    file: Annotated[Path | None, typer.Option("--file", help="New file for the anchor, to publish.")] = None,
    git_note: Annotated[
        bool, typer.Option("--git-note", help="Add a git note to the current commit of its repository.")
    ] = False,
    git_tag: Annotated[
        str | None, typer.Option("--git-tag", help="Name of a new git tag for the same commit.")
    ] = None,
) -> None:
    """Print the digest of the ledger's last line, and store it where a later change of the records shows."""
    from levelfield import api

    found = api.anchor(directory, file=file, git_note=git_note, git_tag=git_tag)
    print(found.text)
    if file is not None:
        print(f"Publish {file}; check with: levelfield verify {directory} --anchor {file}")
    if git_note:
        print("Push the note: git push origin refs/notes/levelfield")
    if git_tag is not None:
        print(f"Push the tag: git push origin {git_tag}")
    if file is None and not git_note and git_tag is None:
        print(f"Keep the digest elsewhere; check with: levelfield verify {directory} --anchor {found.digest}")
