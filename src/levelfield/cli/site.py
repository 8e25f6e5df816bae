"""``levelfield site``: a static site from records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def site(
    folder: Annotated[
        Path, typer.Argument(help="Where experiments lie, such as results/.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the site goes.")] = Path("site"),
) -> None:
    """Write a leaderboard over all experiments of a folder, with a page for each experiment and method."""
    from levelfield.web import write_site

    print(f"Site: {write_site(folder, out)}")
