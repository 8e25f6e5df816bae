"""``levelfield archive``: copy of the records for publication."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def archive(
    directory: Annotated[Path, typer.Argument(help="Experiment directory.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="New directory for the copy.", show_default=False)],
) -> None:
    """Copy the records without weights, logs and images; reports and verdicts stay the same."""
    from levelfield.api import archive as write_archive

    manifest = write_archive(directory, out)
    found = [file.stat().st_size for file in out.rglob("*") if file.is_file()]
    print(f"{out}: {len(found)} files, {sum(found) / 1e6:.1f} MB; check it with: levelfield verify {out}")
    if manifest.missing_runs:
        print(f"{manifest.missing_runs} runs of its trials and reruns are not on record, and not in the copy")
