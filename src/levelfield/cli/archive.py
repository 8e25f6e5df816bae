"""``levelfield archive``: records small enough to publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def archive(
    folder: Annotated[
        Path, typer.Argument(help="The folder that `levelfield run` wrote.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the copy goes.", show_default=False)],
) -> None:
    """Copy the records without weights, logs and pictures; reports, verdicts and checks stay the same."""
    from levelfield.compare import archive as write

    size = write(folder, out)
    print(f"{out}: {size / 1e6:.1f} MB; check it: levelfield verify {out}")
