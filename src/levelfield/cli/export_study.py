"""``levelfield export-study``: open a search in Optuna's own tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export_study(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders that `levelfield run` wrote.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The SQLite file to write.")] = Path("study.db"),
) -> None:
    """Write every search as an Optuna study, for its dashboard and plots."""
    from levelfield.protocol import export_study as write

    for study in write(folders, out):
        print(f"{study.name}: {study.trials} trials")
    print(f"Look at them: optuna-dashboard sqlite:///{out}")
