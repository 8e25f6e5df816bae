"""``levelfield site``: static leaderboard of experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def site(
    directory: Annotated[
        Path, typer.Argument(help="Directory of experiments, such as results/.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output directory.")] = Path("site"),
) -> None:
    """Build a static leaderboard from a directory of experiments."""
    from levelfield.reports.web import write_site

    print(f"Site: {write_site(directory, out)}")
